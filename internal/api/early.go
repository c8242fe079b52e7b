package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// The listeners open before the metadata are read (safety 36), and an image of
// nothing looks like a cluster of nothing: whatever is asked for is not there.
// Nobody may be told so. Requests wait for the metadata, but only in the first
// moments of a process: one whose metadata store is away says so at once. Then
//
//   - what has an error of its own that clients retry is answered with it:
//     LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, COORDINATOR_NOT_AVAILABLE;
//   - anything else is NOT_CONTROLLER for the whole request, or where the answer
//     has no place for that, no answer: the connection is closed.

// early is for how long after the start requests wait for the metadata.
const early = 3 * time.Second

type handler[Req, Resp any] func(ctx context.Context, r *server.Request, req *Req, resp *Resp) error

// soon is a handler that knows what to answer without metadata, and is given
// the chance that it need not.
func soon[Req, Resp any](a *API, h handler[Req, Resp]) handler[Req, Resp] {
	return func(ctx context.Context, r *server.Request, req *Req, resp *Resp) error {
		if unknown(a.Image()) {
			a.awaitMetadata(ctx)
		}
		return h(ctx, r, req, resp)
	}
}

// known is a handler that is not asked without metadata.
func known[Req, Resp any](a *API, h handler[Req, Resp]) handler[Req, Resp] {
	return soon(a, func(ctx context.Context, r *server.Request, req *Req, resp *Resp) error {
		if unknown(a.Image()) {
			return kerr.NotController
		}
		return h(ctx, r, req, resp)
	})
}

// unknown: the image holds nothing because nothing was read yet.
func unknown(img *meta.Image) bool { return img.Revision() == 0 }

// awaitMetadata waits for the first image, as long as this is early.
func (a *API) awaitMetadata(ctx context.Context) {
	left := early - a.Now().Sub(a.born)
	if left <= 0 || a.Await == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	_ = a.Await(ctx, 1) // or not: the image tells
}
