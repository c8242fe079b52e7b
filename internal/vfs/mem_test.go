package vfs_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func mustCreate(t testing.TB, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	return f
}

func write(t testing.TB, f vfs.File, off int64, content string) {
	t.Helper()
	_, err := f.WriteAt([]byte(content), off)
	must(t, err)
}

// dump prints a tree: one line a name, in order.
func dump(t testing.TB, fsys vfs.FS, dir string) string {
	t.Helper()
	var b strings.Builder
	names, err := fsys.List(dir)
	must(t, err)
	for _, base := range names {
		name := path.Join(dir, base)
		fi, err := fsys.Stat(name)
		must(t, err)
		if fi.IsDir() {
			fmt.Fprintf(&b, "%s/\n%s", name, dump(t, fsys, name))
			continue
		}
		fmt.Fprintf(&b, "%s=%q\n", name, get(t, fsys, name))
	}
	return b.String()
}

func TestCrashKeepsExactlyWhatWasSynced(t *testing.T) {
	m := vfs.NewMem()
	must(t, m.MkdirAll("/d"))
	must(t, m.SyncDir("/"))
	f := mustCreate(t, m, "/d/a")
	write(t, f, 0, "synced")
	must(t, f.Sync())
	if got := dump(t, m.CrashClone(rng(1), vfs.CrashOptions{}), "/"); got != "/d/\n" {
		t.Fatalf("without a directory sync: %q", got)
	}
	must(t, m.SyncDir("/d"))
	write(t, f, 6, " not")
	put(t, m, "/d/b", "x")
	clone := m.CrashClone(rng(1), vfs.CrashOptions{})
	if got := dump(t, clone, "/"); got != "/d/\n/d/a=\"synced\"\n" {
		t.Fatalf("%q", got)
	}
	write(t, f, 0, "SYNCED")
	must(t, f.Sync())
	if got := get(t, clone, "/d/a"); got != "synced" {
		t.Fatalf("a write to the old machine reached the clone: %q", got)
	}
	g, err := clone.OpenReadWrite("/d/a")
	must(t, err)
	write(t, g, 0, "clone!")
	if got := get(t, m, "/d/a"); got != "SYNCED not" {
		t.Fatalf("a write to the clone reached the old machine: %q", got)
	}
}

func TestProcessKillKeepsThePageCache(t *testing.T) {
	m := vfs.NewMem()
	must(t, m.MkdirAll("/d"))
	f := mustCreate(t, m, "/d/a")
	write(t, f, 0, "page cache")
	l, err := m.Lock("/d/.lock")
	must(t, err)
	defer l.Close()

	killed := m.CrashClone(rng(1), vfs.ProcessKill)
	if got := get(t, killed, "/d/a"); got != "page cache" {
		t.Fatalf("%q", got)
	}
	_, err = killed.Lock("/d/.lock")
	must(t, err)
	if got := dump(t, killed.CrashClone(rng(1), vfs.CrashOptions{}), "/"); got != "" {
		t.Fatalf("a power loss after the kill leaves %q", got)
	}
	g, err := killed.Open("/d/a")
	must(t, err)
	must(t, g.Sync())
	must(t, killed.SyncDir("/d"))
	must(t, killed.SyncDir("/"))
	got := killed.CrashClone(rng(1), vfs.CrashOptions{})
	if got := get(t, got, "/d/a"); got != "page cache" {
		t.Fatalf("synced after the kill, then power loss: %q", got)
	}
}

func TestRenameIsAtomicInACrash(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		m := vfs.NewMem()
		must(t, m.MkdirAll("/d"))
		must(t, m.SyncDir("/"))
		put(t, m, "/d/a", "")
		must(t, m.SyncDir("/d"))
		f, err := m.OpenReadWrite("/d/a")
		must(t, err)
		write(t, f, 0, "old")
		must(t, f.Sync())
		must(t, vfs.ReplaceFile(m, "/d/x", []byte("kept")))
		g := mustCreate(t, m, "/d/a.tmp")
		write(t, g, 0, "new")
		must(t, g.Sync())
		must(t, m.Rename("/d/a.tmp", "/d/a"))
		got := dump(t, m.CrashClone(rng(seed), vfs.PowerLoss), "/")
		seen[got]++
	}
	want := []string{
		"/d/\n/d/a=\"new\"\n/d/x=\"kept\"\n",
		"/d/\n/d/a=\"old\"\n/d/a.tmp=\"new\"\n/d/x=\"kept\"\n",
		"/d/\n/d/a=\"old\"\n/d/x=\"kept\"\n",
	}
	var got []string
	for k := range seen {
		got = append(got, k)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("outcomes %q, want %q", got, want)
	}
}

func TestRenameBetweenDirectoriesIsAtomicInACrash(t *testing.T) {
	outcomes := map[string]bool{}
	for seed := range uint64(500) {
		m := vfs.NewMem()
		must(t, m.MkdirAll("/p"))
		must(t, m.MkdirAll("/q"))
		put(t, m, "/p/a", "")
		must(t, m.SyncAll("/"))
		put(t, m, "/q/before", "")
		must(t, m.Rename("/p/a", "/q/b"))
		put(t, m, "/p/after", "")
		if seed%5 == 0 {
			must(t, m.SyncDir("/p")) // carries the other half with it
		}
		clone := m.CrashClone(rng(seed), vfs.PowerLoss)
		from, _ := vfs.Exists(clone, "/p/a")
		to, _ := vfs.Exists(clone, "/q/b")
		if from == to {
			t.Fatalf("seed %d: under the old name %t, under the new one %t", seed, from, to)
		}
		if seed%5 == 0 && !to {
			t.Fatalf("seed %d: the synced rename is lost", seed)
		}
		outcomes[dump(t, clone, "/")] = true
	}
	if len(outcomes) < 4 {
		t.Fatalf("only %d outcomes", len(outcomes))
	}
}

func TestTornWritesReachEveryShape(t *testing.T) {
	first := strings.Repeat("1", 3*vfs.SectorBytes)
	second := strings.Repeat("2", 3*vfs.SectorBytes)
	both := first + second
	var whole, none, torn, reordered, grown bool
	for seed := range uint64(2000) {
		m := vfs.NewMem()
		f := mustCreate(t, m, "/a")
		must(t, m.SyncDir("/"))
		write(t, f, 0, first)
		write(t, f, int64(len(first)), second)
		got := get(t, m.CrashClone(rng(seed), vfs.PowerLoss), "/a")
		for i := range len(got) {
			s := i / vfs.SectorBytes * vfs.SectorBytes
			if got[i] != 0 && got[i] != both[i] || got[i] != got[s] {
				t.Fatalf("seed %d: byte %d is %q; sectors are written whole", seed, i, got[i])
			}
		}
		ones, twos := strings.Count(got, "1"), strings.Count(got, "2")
		whole = whole || got == both
		none = none || got == ""
		torn = torn || ones > 0 && ones < len(first)
		reordered = reordered || ones == 0 && twos > 0
		grown = grown || len(got) > 0 && strings.HasSuffix(got, "\x00")
	}
	if !whole || !none || !torn || !reordered || !grown {
		t.Fatalf("whole %t, none %t, torn %t, reordered %t, grown %t", whole, none, torn, reordered, grown)
	}
}

// Within a sector a later write cannot survive without an earlier one.
func TestSectorIsAPageCacheState(t *testing.T) {
	outcomes := map[string]bool{}
	for seed := range uint64(500) {
		m := vfs.NewMem()
		f := mustCreate(t, m, "/a")
		must(t, m.SyncDir("/"))
		for i, s := range []string{"a", "b", "c"} {
			write(t, f, int64(i), s)
		}
		outcomes[strings.TrimRight(get(t, m.CrashClone(rng(seed), vfs.PowerLoss), "/a"), "\x00")] = true
	}
	for got := range outcomes {
		if !strings.HasPrefix("abc", got) {
			t.Fatalf("%q survived", got)
		}
	}
	if len(outcomes) != 4 {
		t.Fatalf("%d outcomes: %v", len(outcomes), outcomes)
	}
}

func TestCrashIsDeterministic(t *testing.T) {
	run := func(seed uint64) string {
		m := vfs.NewMem()
		for d := range 5 {
			dir := fmt.Sprintf("/d%d", d)
			must(t, m.MkdirAll(dir))
			for i := range 5 {
				put(t, m, fmt.Sprintf("%s/f%d", dir, i), strings.Repeat("x", 700*i))
			}
		}
		return dump(t, m.CrashClone(rng(seed), vfs.PowerLoss), "/")
	}
	distinct := map[string]bool{}
	for seed := range uint64(50) {
		a := run(seed)
		if b := run(seed); a != b {
			t.Fatalf("seed %d: two outcomes", seed)
		}
		distinct[a] = true
	}
	if len(distinct) < 20 {
		t.Fatalf("only %d outcomes of 50 seeds", len(distinct))
	}
}

func TestCapacity(t *testing.T) {
	m := vfs.NewMem()
	m.SetCapacity(10)
	f := mustCreate(t, m, "/a")
	write(t, f, 0, "123456")
	n, err := f.WriteAt([]byte("abcdefgh"), 6)
	mustBe(t, err, vfs.ErrNoSpace)
	if n != 4 || get(t, m, "/a") != "123456abcd" {
		t.Fatalf("short write of %d: %q", n, get(t, m, "/a"))
	}
}

func TestCapacityChangesLive(t *testing.T) {
	m := vfs.NewMem()
	m.SetCapacity(10)
	f := mustCreate(t, m, "/a")
	write(t, f, 0, "1234567890")
	write(t, f, 0, "0987654321") // overwriting takes no room
	g := mustCreate(t, m, "/b")
	n, err := g.WriteAt([]byte("x"), 0)
	mustBe(t, err, vfs.ErrNoSpace)
	if n != 0 {
		t.Fatal("wrote into no room")
	}
	mustBe(t, g.Truncate(1), vfs.ErrNoSpace)
	u, err := m.Usage("/")
	must(t, err)
	if u.TotalBytes != 10 || u.FreeBytes != 0 {
		t.Fatalf("%+v", u)
	}
	m.SetCapacity(4)
	must(t, f.Truncate(8)) // shrinking is always allowed
	m.SetCapacity(-1)
	write(t, g, 0, "roomy")
	m.SetCapacity(20)
	must(t, m.Remove("/a"))
	if used := m.Used(); used != 13 {
		t.Fatalf("used %d while a removed file is open", used)
	}
	must(t, f.Close())
	if used := m.Used(); used != 5 {
		t.Fatalf("used %d after it was closed", used)
	}
	must(t, m.Rename("/b", "/c"))
	if used := m.CrashClone(rng(1), vfs.ProcessKill).Used(); used != 5 {
		t.Fatalf("the clone counts %d", used)
	}
	must(t, g.Close())
	must(t, m.RemoveAll("/c"))
	if used := m.Used(); used != 0 {
		t.Fatalf("used %d at the end", used)
	}
}

func TestDevices(t *testing.T) {
	m := vfs.NewMem()
	must(t, m.MkdirAll("/disk1/t-0"))
	must(t, m.MkdirAll("/disk2"))
	m.SetDevice("/disk1", 7)
	for name, want := range map[string]uint64{"/": 1, "/disk1": 7, "disk1/t-0": 7, "/disk2": 1} {
		for _, fsys := range []*vfs.Mem{m, m.CrashClone(rng(1), vfs.ProcessKill)} {
			if u, err := fsys.Usage(name); err != nil || u.Device != want {
				t.Errorf("%s is on device %d, %v", name, u.Device, err)
			}
		}
	}
}

func TestUnsynced(t *testing.T) {
	m := vfs.NewMem()
	check := func(want bool) {
		t.Helper()
		got, err := m.Unsynced("/")
		must(t, err)
		if got != want {
			t.Fatalf("unsynced %t", got)
		}
	}
	check(false)
	f := mustCreate(t, m, "/a")
	check(true)
	must(t, m.SyncDir("/"))
	check(false)
	write(t, f, 0, "x")
	check(true)
	must(t, f.Sync())
	check(false)
}

// A random history against a model: what was synced is in every clone.
func TestSyncedSurvivesAnyCrash(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := vfs.NewMem()
		type file struct {
			h              vfs.File
			synced         []byte
			touched, named bool // touched since the last sync; name durable
		}
		files := map[string]*file{}
		names := rapid.SampledFrom([]string{"/a", "/b", "/c"})
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(rt *rapid.T) {
				name := names.Draw(rt, "name")
				if files[name] == nil {
					files[name] = &file{h: mustCreate(t, m, name)}
				}
			},
			"write": func(rt *rapid.T) {
				if f := files[names.Draw(rt, "name")]; f != nil {
					p := bytes.Repeat([]byte{byte(rapid.IntRange(1, 255).Draw(rt, "byte"))}, rapid.IntRange(1, 1500).Draw(rt, "n"))
					_, err := f.h.WriteAt(p, int64(rapid.IntRange(0, 2000).Draw(rt, "off")))
					must(t, err)
					f.touched = true
				}
			},
			"truncate": func(rt *rapid.T) {
				if f := files[names.Draw(rt, "name")]; f != nil {
					must(t, f.h.Truncate(int64(rapid.IntRange(0, 2500).Draw(rt, "size"))))
					f.touched = true
				}
			},
			"sync": func(rt *rapid.T) {
				name := names.Draw(rt, "name")
				if f := files[name]; f != nil {
					must(t, f.h.Sync())
					f.synced, f.touched = []byte(get(t, m, name)), false
				}
			},
			"sync-dir": func(rt *rapid.T) {
				must(t, m.SyncDir("/"))
				for _, f := range files {
					f.named = true
				}
			},
			"restart": func(rt *rapid.T) {
				m = m.CrashClone(rng(rapid.Uint64().Draw(rt, "seed")), vfs.ProcessKill)
				for name, f := range files {
					h, err := m.OpenReadWrite(name)
					must(t, err)
					f.h = h
				}
			},
			"": func(rt *rapid.T) {
				seed := rapid.Uint64().Draw(rt, "seed")
				some, none := m.CrashClone(rng(seed), vfs.PowerLoss), m.CrashClone(rng(seed), vfs.CrashOptions{})
				for name, f := range files {
					for _, clone := range []*vfs.Mem{some, none} {
						there, err := vfs.Exists(clone, name)
						must(t, err)
						if f.named && !there {
							rt.Fatalf("%s was synced and is gone", name)
						}
						if there && (!f.touched || clone == none) && get(t, clone, name) != string(f.synced) {
							rt.Fatalf("%s differs from what was synced", name)
						}
					}
				}
			},
		})
	})
}
