package cli

import (
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows a running count on a terminal, and nothing anywhere else.
// add may be called from several goroutines.
type progress struct {
	bars *mpb.Progress
	bar  *mpb.Bar
	size *mpb.Bar
}

// newProgress shows on w, a terminal, unless the other end of the command is
// one too: then the user's own typing or the records are the progress.
func newProgress(w io.Writer, other any, verb string) *progress {
	if !terminal(w) || terminal(other) {
		return &progress{}
	}
	bars := mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(200*time.Millisecond))
	return &progress{
		bars: bars,
		bar: bars.New(0, mpb.NopStyle(), mpb.BarRemoveOnComplete(), mpb.PrependDecorators(
			decor.Name(verb+" "), decor.CurrentNoUnit("%d records in "), decor.Elapsed(decor.ET_STYLE_GO))),
		size: bars.New(0, mpb.NopStyle(), mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.CurrentKibiByte("% .1f"))),
	}
}

func (p *progress) add(bytes int) {
	if p.bars != nil {
		p.bar.Increment()
		p.size.IncrBy(bytes)
	}
}

func (p *progress) stop() {
	if p.bars != nil {
		p.bar.Abort(true)
		p.size.Abort(true)
		p.bars.Wait()
	}
}

func terminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
