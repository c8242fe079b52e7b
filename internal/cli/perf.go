package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

func perfCommand(cl *client) *cobra.Command {
	c := &cobra.Command{
		Use:   "perf",
		Short: "Measure throughput and latency of a broker",
		Long: `Measure throughput and latency of a broker as its clients see them. On a terminal a
line a second tells how it goes; the result comes at the end, also when it is interrupted.`,
		Example: "  barnabas perf produce orders --time 1s",
	}
	c.AddCommand(perfProduceCommand(cl), perfConsumeCommand(cl), perfE2ECommand(cl))
	return c
}

// meter counts what clients did. Its methods may be called from any goroutine.
type meter struct {
	mu            sync.Mutex
	start         time.Time
	total, second histogram // of latencies
	records       int64
	bytes         int64
	lastRecords   int64
	lastBytes     int64
	last          time.Time
}

func newMeter() *meter {
	now := time.Now()
	return &meter{start: now, last: now}
}

// add counts records; latency counts only where there is one.
func (m *meter) add(records int, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records += int64(records)
	m.bytes += int64(bytes)
}

func (m *meter) took(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.add(d)
	m.second.add(d)
}

// line tells of the time since the last line, and begins a new one.
func (m *meter) line() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	past := now.Sub(m.last).Seconds()
	text := fmt.Sprintf("%4.0fs  %10.0f records/s  %10s/s  %s", now.Sub(m.start).Seconds(), float64(m.records-m.lastRecords)/past,
		byteSize(int64(float64(m.bytes-m.lastBytes)/past)), quantiles(&m.second))
	m.second = histogram{}
	m.last, m.lastRecords, m.lastBytes = now, m.records, m.bytes
	return text
}

func quantiles(h *histogram) string {
	if h.count == 0 {
		return ""
	}
	return fmt.Sprintf("p50 %s  p99 %s  max %s", ms(h.quantile(0.5)), ms(h.quantile(0.99)), ms(h.max))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f ms", inMillis(d)) }

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// watch prints a line a second on a terminal, until ctx ends.
func (m *meter) watch(ctx context.Context, w io.Writer) {
	if !terminal(w) {
		return
	}
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_, _ = fmt.Fprintln(w, m.line())
		case <-ctx.Done():
			return
		}
	}
}

// measured is the result of a measurement. Latencies are in milliseconds.
type measured struct {
	What       string      `json:"what"`
	Topic      string      `json:"topic"`
	Clients    int         `json:"clients"`
	Seconds    float64     `json:"seconds"`
	Records    int64       `json:"records"`
	Bytes      int64       `json:"bytes"`
	RecordRate float64     `json:"recordsPerSecond"`
	ByteRate   float64     `json:"bytesPerSecond"`
	LatencyOf  string      `json:"latencyOf"`
	Latency    latencies   `json:"latencyMillis"`
	Rows       []countUpTo `json:"histogram"`
}

type latencies struct {
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

type countUpTo struct {
	UpTo  float64 `json:"upToMillis"`
	Count int64   `json:"count"`
}

func (m *meter) result(what, topic, of string, clients int) measured {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &m.total
	seconds := time.Since(m.start).Seconds()
	r := measured{What: what, Topic: topic, Clients: clients, Seconds: seconds, Records: m.records, Bytes: m.bytes,
		RecordRate: float64(m.records) / seconds, ByteRate: float64(m.bytes) / seconds, LatencyOf: of,
		Latency: latencies{inMillis(h.min), inMillis(h.mean()), inMillis(h.quantile(0.5)), inMillis(h.quantile(0.9)), inMillis(h.quantile(0.99)), inMillis(h.quantile(0.999)), inMillis(h.max)},
		Rows:    []countUpTo{}}
	for _, row := range h.rows() {
		r.Rows = append(r.Rows, countUpTo{inMillis(row.UpTo), row.Count})
	}
	return r
}

// print writes the result as a text with a histogram, or as JSON.
func (r measured) print(w io.Writer, output string) error {
	if output == "json" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	}
	t := newTable(w)
	t.row("records", fmt.Sprintf("%d in %.3f s, %.0f a second", r.Records, r.Seconds, r.RecordRate))
	t.row("bytes", fmt.Sprintf("%s, %s a second", byteSize(r.Bytes), byteSize(int64(r.ByteRate))))
	l := r.Latency
	t.row("latency", fmt.Sprintf("min %.3f  mean %.3f  p50 %.3f  p90 %.3f  p99 %.3f  p99.9 %.3f  max %.3f ms, %s", l.Min, l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max, r.LatencyOf))
	var all, most int64
	for _, row := range r.Rows {
		all += row.Count
		most = max(most, row.Count)
	}
	for _, row := range r.Rows {
		t.row(fmt.Sprintf("  up to %.3f ms", row.UpTo), fmt.Sprintf("%6.2f %%  %s", 100*float64(row.Count)/float64(all), strings.Repeat("#", int(40*row.Count/most))))
	}
	return t.flush()
}

// perfFlags are the flags that the measurements share.
type perfFlags struct {
	clients int
	records int64
	time    time.Duration
	output  string
}

func (pf *perfFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&pf.clients, "clients", 1, "clients that work at the same time")
	f.Int64VarP(&pf.records, "records", "n", 0, "end after so many records")
	f.DurationVarP(&pf.time, "time", "t", 0, "end after so long, such as 30s")
	f.StringVarP(&pf.output, "output", "o", "text", "form of the result: text or json")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (pf *perfFlags) check() error {
	switch {
	case pf.clients < 1 || pf.clients > 10000:
		return usagef("--clients must be from 1 to 10000")
	case pf.records < 0 || pf.time < 0:
		return usagef("--records and --time must not be negative")
	case pf.output != "text" && pf.output != "json":
		return usagef("--output must be text or json")
	}
	return nil
}

// within ends after the time that was asked for, if any.
func (pf *perfFlags) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if pf.time > 0 {
		return context.WithTimeout(ctx, pf.time)
	}
	return context.WithCancel(ctx)
}

// pace lets so many records a second go by; 0 lets all.
type pace struct {
	start time.Time
	rate  float64
	n     int64
}

// wait waits for the next record's turn; false when ctx ends first.
func (p *pace) wait(ctx context.Context) bool {
	if p.rate > 0 {
		at := p.start.Add(time.Duration(float64(p.n) / p.rate * float64(time.Second)))
		p.n++
		if d := time.Until(at); d > 0 {
			return pause(ctx, d)
		}
	}
	return ctx.Err() == nil
}
