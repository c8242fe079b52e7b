package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// call sends one request and waits for its answer. Nothing else may be on the
// connection's way.
func call[R kmsg.Response](c *rawConn, q kmsg.Request) (R, error) {
	c.corr++
	r := q.ResponseKind()
	if _, err := c.c.Write(frame(q, c.corr)); err != nil {
		return r.(R), err
	}
	b, err := c.read()
	if err != nil {
		return r.(R), err
	}
	return r.(R), decode(b, c.corr, r)
}

// decode reads a response, its header included, at the version that r has.
func decode(b []byte, corr uint32, r kmsg.Response) error {
	skip := 4
	if r.IsFlexible() {
		skip = 5 // and no tags
	}
	if len(b) < skip || skip == 5 && b[4] != 0 {
		return fmt.Errorf("response header of %d bytes", len(b))
	}
	if got := binary.BigEndian.Uint32(b); got != corr {
		return fmt.Errorf("answer %d in the place of %d", got, corr)
	}
	return r.ReadFrom(b[skip:])
}

func mustDial(addr string) *rawConn {
	c, err := dialRaw(addr)
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// comesAndGoes are the errors of a coordinator that starts, loads or moves.
func comesAndGoes(code int16) bool {
	return code == kerr.CoordinatorLoadInProgress.Code || code == kerr.CoordinatorNotAvailable.Code || code == kerr.NotCoordinator.Code
}

// awaitCoordinator asks for a coordinator until there is one; the first
// question of all makes the offsets topic.
func awaitCoordinator(addr, group string) {
	c := mustDial(addr)
	defer c.c.Close()
	deadline := time.Now().Add(time.Minute)
	for {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.SetVersion(4)
		q.CoordinatorKeys = []string{group}
		r, err := call[*kmsg.FindCoordinatorResponse](c, q)
		if err != nil {
			log.Fatal("find coordinator: ", err)
		}
		if len(r.Coordinators) == 1 && r.Coordinators[0].ErrorCode == 0 {
			return
		}
		if time.Now().After(deadline) {
			log.Fatalf("no coordinator within a minute: %+v", r.Coordinators)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// deleteGroups tidies up; what cannot be deleted expires by itself.
func deleteGroups(addr string, names []string) {
	c, err := dialRaw(addr)
	if err != nil {
		return
	}
	defer c.c.Close()
	for len(names) > 0 {
		q := kmsg.NewPtrDeleteGroupsRequest()
		q.SetVersion(2)
		q.Groups = names[:min(500, len(names))]
		names = names[len(q.Groups):]
		if _, err := call[*kmsg.DeleteGroupsResponse](c, q); err != nil {
			return
		}
	}
}
