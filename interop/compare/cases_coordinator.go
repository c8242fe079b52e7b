//go:build interop

package main

import "github.com/twmb/franz-go/pkg/kmsg"

func coordinatorCases() []testCase {
	return []testCase{{"FindCoordinator", findCoordinator}}
}

func findCoordinator(s *session) {
	s.group("k")
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = "k", []string{"k"}
	for req.Version = 0; req.Version <= 6; req.Version++ {
		req.CoordinatorType = 0
		s.ask("group", req)
		if req.Version == 0 {
			continue
		}
		req.CoordinatorType = 1
		s.ask("transactional id", req)
		req.CoordinatorType = 9
		s.ask("a type that does not exist", req)
	}
}
