package metastore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/metastore/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) metastore.Store { return metastore.NewMem() })
}

// A Faulty without faults is not there.
func TestFaultyConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) metastore.Store { return metastore.NewFaulty(metastore.NewMem()) })
}
