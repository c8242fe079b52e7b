package broker

import (
	"context"

	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// updateFeatures changes finalized levels of features: all or none. It returns
// once this broker's image shows them.
func (w *wishes) updateFeatures(ctx context.Context, updates []plan.FeatureUpdate, validate bool) error {
	for {
		changed := w.keeper.Changed()
		img := w.keeper.Image()
		if img.Revision() == 0 {
			return errNotJoined
		}
		t, ok, err := plan.UpdateFeatures(img, w.self, supportedFeatures(), updates)
		if err != nil || !ok || validate {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		res, err := txn(ctx, w.store, t)
		if err != nil {
			return err
		}
		if res.Succeeded {
			err := w.keeper.Await(ctx, res.Rev)
			levels, _ := w.keeper.Image().Features()
			w.log.Info("features changed", "levels", levels)
			return err
		}
		select { // changed meanwhile: planned again from what it is now
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
