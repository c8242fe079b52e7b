package meta

import (
	"errors"
	"fmt"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Config is the explicit overrides of one resource.
type Config struct {
	Entries map[string]string // not to be changed
	ModRev  int64             // 0: there are none
	extra   extra
}

// Encode gives the value to store for other entries of the same resource.
func (c Config) Encode(entries map[string]string) []byte {
	return encode(&configValue{configSchema.version, entries}, c.extra)
}

type configValue struct {
	Version int               `json:"version"`
	Entries map[string]string `json:"entries"`
}

var configSchema = schemaOf[configValue](1)

func (*configValue) schema() *schema { return configSchema }

func decodeConfig(e kv.KV) (Config, error) {
	var v configValue
	x, err := decode(e.Value, &v)
	if err != nil {
		return Config{}, err
	}
	if v.Entries == nil {
		return Config{}, errors.New("no entries")
	}
	return Config{Entries: v.Entries, ModRev: e.ModRev, extra: x}, nil
}

// Controller is the winner of the election of a controller.
type Controller struct {
	Node        kafka.NodeID
	BrokerEpoch int64 // of the winner's registration
	CreateRev   int64 // what its transactions compare (safety 28)
	ModRev      int64
}

type controllerValue struct {
	Version     int          `json:"version"`
	Node        kafka.NodeID `json:"node"`
	BrokerEpoch int64        `json:"broker_epoch"`
}

var controllerSchema = schemaOf[controllerValue](1)

func (*controllerValue) schema() *schema { return controllerSchema }

// Encode gives the value to store.
func (c Controller) Encode() []byte {
	return encode(&controllerValue{controllerSchema.version, c.Node, c.BrokerEpoch}, nil)
}

// DecodeController reads the controller's key as a transaction's answer holds it.
func DecodeController(e kv.KV) (Controller, error) {
	v := controllerValue{Node: kafka.NoNode}
	if _, err := decode(e.Value, &v); err != nil {
		return Controller{}, err
	}
	if v.Node < 0 {
		return Controller{}, fmt.Errorf("node %d", v.Node)
	}
	return Controller{v.Node, v.BrokerEpoch, e.CreateRev, e.ModRev}, nil
}

// ControllerEpoch counts the elections of a controller.
type ControllerEpoch struct {
	Epoch  int32
	ModRev int64
	extra  extra
}

type epochValue struct {
	Version int   `json:"version"`
	Epoch   int32 `json:"epoch"`
}

var epochSchema = schemaOf[epochValue](1)

func (*epochValue) schema() *schema { return epochSchema }

// Next gives the value to store for the election after c's.
func (c ControllerEpoch) Next() []byte {
	return encode(&epochValue{epochSchema.version, c.Epoch + 1}, c.extra)
}

func decodeEpoch(e kv.KV) (ControllerEpoch, error) {
	var v epochValue
	x, err := decode(e.Value, &v)
	if err != nil {
		return ControllerEpoch{}, err
	}
	if v.Epoch < 0 {
		return ControllerEpoch{}, fmt.Errorf("epoch %d is negative", v.Epoch)
	}
	return ControllerEpoch{v.Epoch, e.ModRev, x}, nil
}

// The features that are finalized, by Apache Kafka's names, and our own.
const (
	FeatureMetadata    = "metadata.version"
	FeatureGroup       = "group.version"
	FeatureTransaction = "transaction.version"
	FeatureBarnabas    = "barnabas.version"
)

// MetadataVersion44 is the level of metadata.version that Apache Kafka 4.4.0
// finalizes on a new cluster (4.4-IV2).
const MetadataVersion44 = 33

// BarnabasVersion is the newest level of barnabas.version: it gates records
// and values of our own.
const BarnabasVersion = 1

// InitialFeatures are the levels of a new cluster. A level of 0 is a feature
// that is off.
func InitialFeatures() map[string]int16 {
	return map[string]int16{
		FeatureMetadata:    MetadataVersion44,
		FeatureGroup:       1,
		FeatureTransaction: 0,
		FeatureBarnabas:    BarnabasVersion,
	}
}

// Features are the finalized feature levels; ModRev is their epoch.
type Features struct {
	Levels map[string]int16 // not to be changed
	ModRev int64
	extra  extra
}

type featuresValue struct {
	Version int              `json:"version"`
	Levels  map[string]int16 `json:"levels"`
}

var featuresSchema = schemaOf[featuresValue](1)

func (*featuresValue) schema() *schema { return featuresSchema }

// Encode gives the value to store for other levels.
func (f Features) Encode(levels map[string]int16) []byte {
	return encode(&featuresValue{featuresSchema.version, levels}, f.extra)
}

func decodeFeatures(e kv.KV) (Features, error) {
	var v featuresValue
	x, err := decode(e.Value, &v)
	if err != nil {
		return Features{}, err
	}
	if v.Levels == nil {
		return Features{}, errors.New("no levels")
	}
	return Features{v.Levels, e.ModRev, x}, nil
}

// Cluster is written once, when the cluster begins.
type Cluster struct {
	ID          string
	CreatedAtMs int64
	ModRev      int64
}

type clusterValue struct {
	Version     int    `json:"version"`
	ClusterID   string `json:"cluster_id"`
	CreatedAtMs int64  `json:"created_at_ms"`
}

var clusterSchema = schemaOf[clusterValue](1)

func (*clusterValue) schema() *schema { return clusterSchema }

// Encode gives the value to store.
func (c Cluster) Encode() []byte {
	return encode(&clusterValue{clusterSchema.version, c.ID, c.CreatedAtMs}, nil)
}

// DecodeCluster reads the value as a transaction's answer holds it.
func DecodeCluster(e kv.KV) (Cluster, error) {
	var v clusterValue
	if _, err := decode(e.Value, &v); err != nil {
		return Cluster{}, err
	}
	if v.ClusterID == "" {
		return Cluster{}, errors.New("no cluster_id")
	}
	return Cluster{v.ClusterID, v.CreatedAtMs, e.ModRev}, nil
}

// ProducerIDs is the state of the hand-out of producer ids, in blocks.
type ProducerIDs struct {
	Next   int64 // first id that nobody was given
	ModRev int64
	extra  extra
}

type producerIDsValue struct {
	Version     int          `json:"version"`
	Next        int64        `json:"next"`
	Node        kafka.NodeID `json:"node"` // who took the last block
	BrokerEpoch int64        `json:"broker_epoch"`
}

var producerIDsSchema = schemaOf[producerIDsValue](1)

func (*producerIDsValue) schema() *schema { return producerIDsSchema }

// Encode gives the value to store after node took the ids below next.
func (p ProducerIDs) Encode(next int64, node kafka.NodeID, brokerEpoch int64) []byte {
	return encode(&producerIDsValue{producerIDsSchema.version, next, node, brokerEpoch}, p.extra)
}

// DecodeProducerIDs reads the key as a transaction's answer holds it.
func DecodeProducerIDs(e kv.KV) (ProducerIDs, error) {
	var v producerIDsValue
	x, err := decode(e.Value, &v)
	if err != nil {
		return ProducerIDs{}, err
	}
	if v.Next < 0 {
		return ProducerIDs{}, fmt.Errorf("next %d is negative", v.Next)
	}
	return ProducerIDs{v.Next, e.ModRev, x}, nil
}
