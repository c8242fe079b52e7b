package storage

import "github.com/barnabas-mq/barnabas/internal/batch"

// recordAt returns the first record of the batch that fits: its offset and
// timestamp; offset -1 when none does. A compressed batch is opened.
func recordAt(b batch.Batch, fits func(offset, ts int64) bool) (offset, ts int64, err error) {
	it := batch.Records(b, 0)
	defer it.Close()
	for it.Next() {
		r := it.Record()
		if o, t := b.Offset(r), b.Timestamp(r); fits(o, t) {
			return o, t, nil
		}
	}
	return -1, -1, it.Err()
}
