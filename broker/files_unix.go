//go:build unix

package broker

import "syscall"

// openFilesLimit is how many files and connections this process may have open.
func openFilesLimit() (n uint64, known bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return uint64(l.Cur), true // some systems count it with a sign
}
