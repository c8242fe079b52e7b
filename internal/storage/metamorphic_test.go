package storage

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// TestMetamorphic plays one random history under many settings: whatever the
// sizes of segments and indexes, durable or not, however often files are
// opened again, the log reads the same, and as the model says.
func TestMetamorphic(t *testing.T) {
	for seed := range uint64(max(*seedCount/10, 4)) {
		var first []string
		for variant := range uint64(6) {
			v := rand.New(rand.NewPCG(seed, 100+variant))
			h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 7)), clock: testAt}
			h.cfg = testConfig()
			h.cfg.SegmentBytes = int32(1500 + v.IntN(30_000))
			h.cfg.IndexIntervalBytes = int32(v.IntN(5000))
			h.cfg.IndexBytes = int32(100 + v.IntN(1000))
			h.cfg.Durable = v.IntN(2) == 0
			h.cfg.RetentionMs, h.cfg.FileDeleteDelay = -1, 0
			h.quietReads = true
			h.open(vfs.NewMem())
			h.create()
			for range 250 {
				h.stepAny(v)
			}
			h.check("at the end")
			got := readAll(t, h.log, h.log.Start(), h.log.End())
			if first == nil {
				first = got
			}
			if !slices.Equal(got, first) {
				t.Fatalf("seed %d: variant %d reads %d records, the first %d", seed, variant, len(got), len(first))
			}
			h.box.m.unlock()
		}
	}
}

// stepAny does a step of the history that is the same for all variants, and
// sometimes something in between that must not matter.
func (h *history) stepAny(v *rand.Rand) {
	switch v.IntN(12) {
	case 0:
		h.restart()
	case 1:
		h.log.d.flusher.drain()
	case 2:
		h.box.m.dirs[0].deleteDue(testAt.AddDate(100, 0, 0))
	}
	switch r := h.rng.IntN(20); {
	case r < 15:
		h.append(h.rng.IntN(2) == 0)
	case r < 16:
		h.m.epoch++
	case r < 18:
		h.truncate()
	case r < 19:
		h.log.SetHighWatermark(max(h.log.HighWatermark(), h.log.Start()+(h.m.end()-h.log.Start())/3))
	default:
		h.deleteBefore()
	}
}
