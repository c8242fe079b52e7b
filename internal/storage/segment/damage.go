package segment

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Damage is bytes of a data file that cannot be what was written. It unwraps
// to kerr.CorruptMessage.
type Damage struct {
	File string
	Pos  int64
	Why  string
}

func (d *Damage) Error() string { return fmt.Sprintf("%s at %d: %s", d.File, d.Pos, d.Why) }

// Unwrap makes it the protocol's error.
func (d *Damage) Unwrap() error { return kerr.CorruptMessage }
