package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// refusals are etcd's errors that say for certain that nothing was carried out:
// found by the checks before a proposal, or by the state machine instead of it.
var refusals = map[error]error{
	rpctypes.ErrCompacted:                 metastore.ErrCompacted,
	rpctypes.ErrFutureRev:                 metastore.ErrFutureRev,
	rpctypes.ErrLeaseNotFound:             metastore.ErrLeaseGone,
	rpctypes.ErrTooManyOps:                metastore.ErrTooManyOps,
	rpctypes.ErrDuplicateKey:              metastore.ErrDuplicateKey,
	rpctypes.ErrRequestTooLarge:           metastore.ErrTooLarge,
	rpctypes.ErrEmptyKey:                  metastore.ErrEmptyKey,
	rpctypes.ErrNoSpace:                   fmt.Errorf("%w: %w", metastore.ErrUnavailable, metastore.ErrNoSpace),
	rpctypes.ErrTooManyRequests:           metastore.ErrUnavailable,
	rpctypes.ErrNoLeader:                  metastore.ErrUnavailable,
	rpctypes.ErrNotCapable:                metastore.ErrUnavailable,
	rpctypes.ErrCorrupt:                   metastore.ErrUnavailable,
	rpctypes.ErrAuthFailed:                metastore.ErrUnavailable,
	rpctypes.ErrPermissionDenied:          metastore.ErrUnavailable,
	rpctypes.ErrInvalidAuthToken:          metastore.ErrUnavailable,
	rpctypes.ErrAuthOldRevision:           metastore.ErrUnavailable,
	rpctypes.ErrUserEmpty:                 metastore.ErrUnavailable,
	rpctypes.ErrClusterVersionUnavailable: metastore.ErrUnavailable,
	// Of changes of the members: none now, but later.
	rpctypes.ErrUnhealthy:              metastore.ErrUnavailable,
	rpctypes.ErrMemberNotEnoughStarted: metastore.ErrUnavailable,
	rpctypes.ErrMemberLearnerNotReady:  metastore.ErrUnavailable,
	rpctypes.ErrTooManyLearners:        metastore.ErrUnavailable,
}

// refusal is the certain refusal that err stands for, or nil.
func refusal(err error) error {
	var ee rpctypes.EtcdError
	if errors.As(err, &ee) {
		if r := refusals[ee]; r != nil {
			return fmt.Errorf("%w: %w", r, err)
		}
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return nil
	}
	switch {
	case st.Code() == codes.ResourceExhausted && strings.Contains(st.Message(), "trying to send message larger than max"):
		return fmt.Errorf("%w: %w", metastore.ErrTooLarge, err)
	case st.Code() == codes.Unavailable && strings.Contains(st.Message(), "while dialing"):
		// No connection was there to carry the request. A connection that broke
		// under it says otherwise ("error reading from server", "closing").
		return fmt.Errorf("%w: %w", metastore.ErrUnavailable, err)
	}
	return nil
}

// writeError of a call that may have changed something: certain refusals by name, all else is a maybe.
func writeError(what string, err error) error {
	if r := refusal(err); r != nil {
		return fmt.Errorf("%s: %w", what, r)
	}
	return fmt.Errorf("%s: %w: %w", what, metastore.ErrMaybe, err)
}

// readError of a call that changes nothing, or nothing that matters twice.
func readError(what string, err error) error {
	if r := refusal(err); r != nil {
		return fmt.Errorf("%s: %w", what, r)
	}
	return fmt.Errorf("%s: %w: %w", what, metastore.ErrUnavailable, err)
}

// watchError says why a watch ended.
func watchError(ctx context.Context, err error) error {
	if cerr := ctx.Err(); cerr != nil {
		return cerr
	}
	if err == nil {
		return fmt.Errorf("watch closed: %w", metastore.ErrUnavailable)
	}
	return readError("watch", err)
}
