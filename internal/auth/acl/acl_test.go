package acl

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The codes and names are the protocol's.
func TestCodes(t *testing.T) {
	for op := All; op <= DescribeTokens; op++ {
		k, err := kmsg.ParseACLOperation(op.String())
		if err != nil || int8(k) != int8(op) {
			t.Errorf("%s is %d here, %d in the protocol (%v)", op, op, k, err)
		}
	}
	for r := Topic; r <= User; r++ {
		k, err := kmsg.ParseACLResourceType(r.String())
		if err != nil || int8(k) != int8(r) {
			t.Errorf("%s is %d here, %d in the protocol (%v)", r, r, k, err)
		}
	}
	if Operation(99).String() != "UNKNOWN" || Resource(-1).String() != "UNKNOWN" {
		t.Error("a code without a name must be UNKNOWN")
	}
}

func TestWithoutRules(t *testing.T) {
	a := For(nil)
	for _, c := range []struct {
		op   Operation
		res  Resource
		name string
		want bool
	}{
		{Write, Topic, "orders", true},
		{Read, Group, "g", true},
		{IdempotentWrite, Cluster, ClusterName, true},
		{Write, Group, "g", false},
		{AnyOperation, Topic, "orders", false},
		{Read, UnknownResource, "", false},
	} {
		if got := a.Allow("User:ANONYMOUS", c.op, c.res, c.name); got != c.want {
			t.Errorf("%s on %s: %v", c.op, c.res, got)
		}
	}
}

// The figures that clients of an Apache Kafka broker without an authorizer see.
func TestAuthorized(t *testing.T) {
	for res, want := range map[Resource]int32{Topic: 3576, Group: 3400, Cluster: 8096} {
		if got := For(nil).Authorized("User:ANONYMOUS", res, "x"); got != want {
			t.Errorf("%s: %d, want %d", res, got, want)
		}
	}
}
