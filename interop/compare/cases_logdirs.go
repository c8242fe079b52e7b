//go:build interop

package main

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func logDirCases() []testCase {
	return []testCase{{"DescribeLogDirs", describedDirs}, {"AlterReplicaLogDirs", alteredDirs}}
}

func describeDirs(version int16, topics []kmsg.DescribeLogDirsRequestTopic) *kmsg.DescribeLogDirsRequest {
	r := kmsg.NewPtrDescribeLogDirsRequest()
	r.Version, r.Topics = version, topics
	return r
}

func dirTopic(name string, partitions ...int32) kmsg.DescribeLogDirsRequestTopic {
	t := kmsg.NewDescribeLogDirsRequestTopic()
	t.Topic, t.Partitions = name, partitions
	return t
}

// dirs asks, and notes what of the answer can be the same: paths and the bytes
// of devices are not.
func (s *session) dirs(label string, req *kmsg.DescribeLogDirsRequest) []kmsg.DescribeLogDirsResponseDir {
	r := s.do(req).(*kmsg.DescribeLogDirsResponse)
	s.note("%s, v%d: error %d, throttle %d, %d directories", label, req.Version, r.ErrorCode, r.ThrottleMillis, len(r.Dirs))
	var found []string
	for _, d := range r.Dirs {
		s.note("error %d, absolute path: %t, bytes told: %t, sane: %t, cordoned: %t", d.ErrorCode, strings.HasPrefix(d.Dir, "/"),
			d.TotalBytes > 0 && d.UsableBytes > 0, d.UsableBytes <= d.TotalBytes, d.IsCordoned)
		for _, t := range d.Topics {
			if !strings.Contains(t.Topic, s.suffix) {
				continue
			}
			for _, p := range t.Partitions {
				found = append(found, s.plain(t.Topic)+" "+s.dump(p))
			}
		}
	}
	slices.Sort(found)
	s.note("found: %s", strings.Join(found, "; "))
	return r.Dirs
}

func describedDirs(s *session) {
	s.create("ld", 3)
	name := s.topic("ld")
	for range 3 {
		s.put("ld", 1, raw.NewBatch(1000, "x", "y").MustEncode())
	}
	for v := int16(1); v <= 5; v++ {
		s.dirs("all", describeDirs(v, nil))
		s.dirs("none", describeDirs(v, []kmsg.DescribeLogDirsRequestTopic{}))
		s.dirs("two partitions", describeDirs(v, []kmsg.DescribeLogDirsRequestTopic{dirTopic(name, 0, 1)}))
		s.dirs("without partitions", describeDirs(v, []kmsg.DescribeLogDirsRequestTopic{dirTopic(name)}))
		s.dirs("twice", describeDirs(v, []kmsg.DescribeLogDirsRequestTopic{dirTopic(name, 1, 1), dirTopic(name, 1)}))
		s.dirs("unknown ones", describeDirs(v, []kmsg.DescribeLogDirsRequestTopic{dirTopic("no-such", 0), dirTopic(name, 7, -1), dirTopic("", 0)}))
	}
}

func alterDir(version int16, dir, topic string, partitions ...int32) *kmsg.AlterReplicaLogDirsRequest {
	r := kmsg.NewPtrAlterReplicaLogDirsRequest()
	r.Version = version
	addDir(r, dir, topic, partitions...)
	return r
}

func addDir(r *kmsg.AlterReplicaLogDirsRequest, dir, topic string, partitions ...int32) {
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = dir
	t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	t.Topic, t.Partitions = topic, partitions
	d.Topics = append(d.Topics, t)
	r.Dirs = append(r.Dirs, d)
}

// move is ask, without the directories of the request: they are each broker's own.
func (s *session) move(label string, req *kmsg.AlterReplicaLogDirsRequest) {
	s.note("%s, v%d", label, req.Version)
	s.out.WriteString("< " + s.dumpAnswer(s.do(req)))
}

func alteredDirs(s *session) {
	s.create("al", 2)
	name := s.topic("al")
	s.put("al", 0, raw.NewBatch(1000, "x", "y").MustEncode())
	dirs := s.dirs("all", describeDirs(4, nil))
	here, there := s.whereIs(dirs, name)
	for _, v := range []int16{1, 2} {
		s.move("no such directory", alterDir(v, "/no/such", name, 0))
		s.move("a directory with a slash behind it", alterDir(v, here+"/", name, 0))
		s.move("no directory", alterDir(v, "", name, 0))
		s.move("where it is", alterDir(v, here, name, 0))
		s.move("no such partition", alterDir(v, here, name, 9))
		s.move("negative partition", alterDir(v, here, name, -1))
		s.move("no such topic", alterDir(v, here, s.topic("nosuch"), 0))
		s.move("no such topic nor directory", alterDir(v, "/no/such", s.topic("nosuch"), 0))
		s.move("a name that is no topic's", alterDir(v, here, "bad name!", 0))
		s.move("a long name", alterDir(v, here, strings.Repeat("n", 215), 0))
		s.move("a shorter name", alterDir(v, here, strings.Repeat("n", 213), 0))
		s.move("nothing", alterDir(v, here, name))
		twice := alterDir(v, "/no/such", name, 0)
		addDir(twice, here, name, 0)
		s.move("twice, the good one last", twice)
		twice = alterDir(v, here, name, 0)
		addDir(twice, "/no/such", name, 0)
		s.move("twice, the good one first", twice)
	}
	if there == "" {
		return
	}
	s.move("to another directory", alterDir(2, there, name, 0))
	s.awaitDir(there, name)
	s.dirs("moved", describeDirs(5, []kmsg.DescribeLogDirsRequestTopic{dirTopic(name, 0)}))
	s.move("there it is", alterDir(2, there, name, 0))
	s.ask("fetch", fetch(12, name, [16]byte{}, fetchAsk{0, 0, 0}))
	s.move("and back", alterDir(2, here, name, 0))
	s.awaitDir(here, name)
	s.ask("fetch", fetch(12, name, [16]byte{}, fetchAsk{0, 0, 0}))
	s.create("alempty", 1)
	empty := s.topic("alempty")
	_, there = s.whereIs(s.do(describeDirs(4, nil)).(*kmsg.DescribeLogDirsResponse).Dirs, empty)
	s.askOffset("an empty one", listOffsets(11, empty, offsetAsk{0, -2, -1}))
	s.move("an empty one", alterDir(2, there, empty, 0))
	s.awaitDir(there, empty)
	s.askOffset("an empty one that moved", listOffsets(11, empty, offsetAsk{0, -2, -1}))
}

// whereIs gives the directory of a topic's partition 0, and another one.
func (s *session) whereIs(dirs []kmsg.DescribeLogDirsResponseDir, topic string) (here, other string) {
	for _, d := range dirs {
		in := slices.ContainsFunc(d.Topics, func(t kmsg.DescribeLogDirsResponseDirTopic) bool {
			return t.Topic == topic && slices.ContainsFunc(t.Partitions, func(p kmsg.DescribeLogDirsResponseDirTopicPartition) bool { return p.Partition == 0 })
		})
		if in {
			here = d.Dir
		} else {
			other = d.Dir
		}
	}
	return here, other
}

// awaitDir waits until the partition is in dir and nowhere else.
func (s *session) awaitDir(dir, topic string) {
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		n := 0
		r := s.do(describeDirs(4, []kmsg.DescribeLogDirsRequestTopic{dirTopic(topic, 0)})).(*kmsg.DescribeLogDirsResponse)
		for _, d := range r.Dirs {
			n += len(d.Topics)
		}
		if here, _ := s.whereIs(r.Dirs, topic); here == dir && n == 1 {
			return
		}
	}
	s.fail("%s did not move", s.plain(topic))
}
