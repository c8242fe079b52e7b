//go:build unix

package brokertest_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// With fewer descriptors than connections and files would take, what cannot be
// is refused, and when there is room again everything goes on.
func TestDISK02Descriptors(t *testing.T) {
	const partitions = 200
	b := spawn(t, t.TempDir(), 256, "log.segment.bytes=1048576")
	defer func() {
		if t.Failed() {
			t.Logf("the broker said:\n%s", b.errs)
		}
	}()
	p := b.dial()
	p.create("many", partitions)
	var conns []net.Conn
	for range 300 {
		nc, err := net.Dial("tcp", b.addr)
		if err != nil {
			break // refused by the system, whose backlog is full
		}
		conns = append(conns, nc)
	}
	refused, taken := 0, 0
	payload := strings.Repeat("x", 400_000)
	for round := range 4 { // each log rolls
		for part := range int32(partitions) {
			if (part+int32(round))%4 != 0 && round < 3 {
				continue
			}
			req := produceTo(9, 1, "many", records(payload))
			req.Topics[0].Partitions[0].Partition = part
			switch out := p.produce(req)[0]; out.ErrorCode {
			case 0:
				taken++
			case kerr.KafkaStorageError.Code:
				refused++
			default:
				t.Fatalf("produce: %s", name(out.ErrorCode))
			}
		}
	}
	t.Logf("%d connections, %d batches taken, %d refused", len(conns), taken, refused)
	if taken == 0 {
		t.Error("connections left no descriptor to the logs")
	}
	for _, nc := range conns {
		_ = nc.Close()
	}
	p = b.dial()
	for part := range int32(partitions) {
		req := produceTo(9, 1, "many", records("y"))
		req.Topics[0].Partitions[0].Partition = part
		code := p.produce(req)[0].ErrorCode
		for until := time.Now().Add(10 * time.Second); code == kerr.KafkaStorageError.Code && time.Now().Before(until); {
			code = p.produce(req)[0].ErrorCode // the broker may not have seen all the connections go yet
		}
		wantCode(t, fmt.Sprintf("partition %d with room again", part), code, nil)
	}
	b.stop()
}

func TestDISK04RestartsLeaveNothing(t *testing.T) {
	const partitions, restarts = 100, 5
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("many", partitions)
	all := make([][]byte, partitions)
	for i := range all {
		all[i] = records("x")
	}
	p.write("many", all...)
	var segments, open []int
	for range restarts {
		b.Restart()
		p = dial(t, b)
		p.alive()
		segments = append(segments, count(t, b.DataDir(), ".log"))
		open = append(open, descriptors(t, b.DataDir()))
	}
	for i := range segments {
		if segments[i] != partitions {
			t.Errorf("%d partitions have %v data files after restarts", partitions, segments)
		}
		if open[i] > open[0] {
			t.Errorf("open files after restarts: %v", open)
		}
	}
}

func count(t *testing.T, dir, suffix string) int {
	t.Helper()
	n := 0
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, suffix) {
			n++
		}
		return err
	}))
	return n
}

// descriptors counts this process's open files below dir.
func descriptors(t *testing.T, dir string) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("open files cannot be counted here: %v", err)
	}
	n := 0
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}
