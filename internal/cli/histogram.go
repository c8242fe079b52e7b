package cli

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are at most a 64th of their value
// wide. The zero value is empty.
type histogram struct {
	count    int64
	sum      time.Duration
	min, max time.Duration
	buckets  [36 * 64]int64
}

// longest is where all that is longer is counted: some 18 minutes.
const longest = 1 << 40

func bucket(d time.Duration) int {
	v := uint64(min(max(d, 0), longest))
	e := max(bits.Len64(v)-7, 0)
	return 64*e + int(v>>e)
}

// upper is the largest duration in a bucket.
func upper(i int) time.Duration {
	if i < 128 {
		return time.Duration(i)
	}
	e := i/64 - 1
	return time.Duration(uint64(i%64+64+1)<<e - 1)
}

func (h *histogram) add(d time.Duration) {
	if h.count == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.count++
	h.sum += d
	h.buckets[min(bucket(d), len(h.buckets)-1)]++
}

// quantile is a duration that a share q of all does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	left := int64(q*float64(h.count) + 0.999999)
	for i, n := range h.buckets {
		if left -= n; n > 0 && left <= 0 {
			if i == bucket(longest) {
				break
			}
			return min(upper(i), h.max)
		}
	}
	return h.max
}

func (h *histogram) mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return h.sum / time.Duration(h.count)
}

// row is how many durations were longer than the row before and not than this.
type row struct {
	UpTo  time.Duration
	Count int64
}

// rows are the buckets by doubling durations, from the least to the largest.
func (h *histogram) rows() []row {
	var out []row
	next := time.Microsecond
	var n int64
	for i, c := range h.buckets {
		for upper(i) > next {
			if n > 0 || len(out) > 0 {
				out = append(out, row{next, n})
			}
			next, n = 2*next, 0
		}
		n += c
	}
	if n > 0 {
		out = append(out, row{next, n})
	}
	for len(out) > 0 && out[len(out)-1].Count == 0 {
		out = out[:len(out)-1]
	}
	return out
}
