package invariant

import "testing"

func TestCheck(t *testing.T) {
	panicked := func(ok bool) (msg any) {
		defer func() { msg = recover() }()
		Check(ok, "base %d above next %d", 2, 1)
		return nil
	}
	if got := panicked(true); got != nil {
		t.Errorf("a true condition panicked: %v", got)
	}
	var want any
	if On {
		want = "invariant broken: base 2 above next 1"
	}
	if got := panicked(false); got != want {
		t.Errorf("a false condition: %v, want %v", got, want)
	}
}
