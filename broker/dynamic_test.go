package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
)

// A partition that is there answers after its sync as soon as all brokers are
// told so, and before it again when the setting is taken away.
func TestDynamicDurableAcks(t *testing.T) {
	p := startBroker(t, nil, "log.dirs="+t.TempDir(), "barnabas.durable.acks=false")
	l := p.logUnderTest()
	put := func() { p.mustPut(l, 0, oneRecord(time.Now(), nil, []byte("v"), batch.Options{})) }
	flushed := func() bool {
		t.Helper()
		put()
		log := p.log(l, 0)
		return log.FlushedEnd() == log.End()
	}
	put() // the first one is synced: the log is marked then (safety 11)
	if flushed() {
		t.Fatal("synced before it is set")
	}
	p.setAll("barnabas.durable.acks", "true", kmsg.IncrementalAlterConfigOpSet)
	if !flushed() {
		t.Error("not synced although it is set")
	}
	p.setAll("barnabas.durable.acks", "true", kmsg.IncrementalAlterConfigOpDelete)
	put()
	if flushed() {
		t.Error("synced although it is taken away")
	}
}

// setAll changes a setting of all brokers.
func (p *process) setAll(key, value string, op kmsg.IncrementalAlterConfigOp) {
	p.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeBroker
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value, c.Op = key, &value, op
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	if out := ask[*kmsg.IncrementalAlterConfigsResponse](groupClient{p}, req).Resources[0]; out.ErrorCode != 0 {
		p.t.Fatal(*out.ErrorMessage)
	}
}

// An operation that does not exist refuses the whole request: of what stands
// beside it nothing is carried out.
func TestUnknownOperationChangesNothing(t *testing.T) {
	p := startBroker(t, nil, "log.dirs="+t.TempDir())
	value := "600000"
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for i, op := range []kmsg.IncrementalAlterConfigOp{kmsg.IncrementalAlterConfigOpSet, 9} {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, []string{"a", "b"}[i]
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value, c.Op = "consumer.session.timeout.ms", &value, op
		r.Configs = append(r.Configs, c)
		req.Resources = append(req.Resources, r)
	}
	for _, out := range ask[*kmsg.IncrementalAlterConfigsResponse](groupClient{p}, req).Resources {
		if kerr.ErrorForCode(out.ErrorCode) != kerr.InvalidRequest {
			t.Errorf("%s: %v", out.ResourceName, kerr.ErrorForCode(out.ErrorCode))
		}
	}
	if set := p.b.parts.keeper.Image().GroupConfig("a"); len(set) != 0 {
		t.Errorf("%v is set", set)
	}
}
