package producers

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Guard stands for one attempt to write to a transaction while its coordinator
// is asked whether it is open (KIP-890). A marker, an epoch change or a write
// in between ends the guard, and the append that carries it is refused: else a
// late write would open a transaction that nobody ends.
type Guard struct {
	epoch     int16
	lowestSeq int32
	// bumps: the client knows transaction.version 2, so a new transaction has a
	// new epoch and begins with sequence 0.
	bumps  bool
	madeMs int64
}

// StartVerification returns the guard to ask the coordinator under, the same
// one for all attempts of a producer until it ends; nil when the transaction is
// open already and nothing has to be asked. It is called before the question
// is sent. An epoch below the known one is INVALID_PRODUCER_EPOCH.
func (s *State) StartVerification(producerID int64, epoch int16, firstSeq int32, bumps bool, now time.Time) (*Guard, error) {
	if k := s.producers[producerID]; k != nil {
		if epoch < k.Epoch {
			b := Batch{ProducerID: producerID, Epoch: epoch, FirstSeq: firstSeq, FirstOffset: s.end}
			return nil, refuse(kerr.InvalidProducerEpoch, &b, "the epoch is below %d", k.Epoch)
		}
		if k.InTransaction() && k.Epoch == epoch {
			return nil, nil
		}
	}
	g := s.guards[producerID]
	if g == nil || epoch > g.epoch {
		g = &Guard{epoch: epoch, lowestSeq: firstSeq, bumps: bumps, madeMs: now.UnixMilli()}
		s.guards[producerID] = g
	}
	// The lowest sequence that waits for its answer goes first: were a higher
	// one written, it could never follow.
	if epoch == g.epoch && firstSeq < g.lowestSeq {
		g.lowestSeq = firstSeq
	}
	return g, nil
}

// unverified reports whether a batch would open a transaction without leave.
func (s *State) unverified(b *Batch, g *Guard) bool {
	if b.Control || !b.Transactional {
		return false
	}
	if k := s.producers[b.ProducerID]; k != nil && k.InTransaction() && k.Epoch == b.Epoch {
		return false
	}
	return g == nil || s.guards[b.ProducerID] != g
}

func (s *State) expireGuards(nowMs int64) {
	for id, g := range s.guards {
		if nowMs-g.madeMs >= s.expiration.Milliseconds() {
			delete(s.guards, id)
		}
	}
}
