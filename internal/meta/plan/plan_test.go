package plan_test

import (
	"testing"

	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

func TestScripts(t *testing.T) { metatest.Run(t, "testdata/scripts", nil) }
