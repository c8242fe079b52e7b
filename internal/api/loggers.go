package api

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/levels"
)

// alterLoggers sets levels of the broker's loggers (KIP-412): all that is
// asked for, or nothing. They last until the settings are read again, or the
// broker stops.
func (a *API) alterLoggers(c change, validate bool) error {
	id, err := strconv.ParseInt(c.name, 10, 32)
	if err != nil {
		return refusal(kerr.InvalidRequest, "Node id must be an integer, but it is: "+c.name)
	}
	if id != int64(a.Self) {
		return refusal(kerr.InvalidRequest, fmt.Sprintf("Unexpected node id. Expected %d, but received %d", a.Self, id))
	}
	known := map[string]bool{}
	for _, l := range a.Levels.Loggers() {
		known[l.Name] = true
	}
	for _, op := range c.ops {
		if err := checkLogger(op, known[op.Name]); err != nil {
			return err
		}
	}
	if validate {
		return nil
	}
	for _, op := range c.ops {
		if op.Kind == config.DeleteOp {
			a.Levels.Unset(op.Name)
			a.Log.Info("log level is the root's again", "logger", op.Name)
			continue
		}
		level, _ := levels.Parse(*op.Value)
		a.Levels.Set(op.Name, level)
		a.Log.Info("log level changed", "logger", op.Name, "level", *op.Value)
	}
	return nil
}

func checkLogger(op config.Op, known bool) error {
	if verb := map[config.OpKind]string{config.AppendOp: "APPEND", config.SubtractOp: "SUBTRACT"}[op.Kind]; verb != "" {
		return refusal(kerr.InvalidRequest, verb+" operation is not allowed for the BROKER_LOGGER resource")
	}
	if !known {
		return refusal(kerr.InvalidConfig, fmt.Sprintf("Logger %s does not exist!", op.Name))
	}
	if op.Kind == config.DeleteOp {
		if op.Name == levels.Root {
			return refusal(kerr.InvalidRequest, "Removing the log level of the root logger is not allowed")
		}
		return nil
	}
	if _, ok := levels.Parse(*op.Value); !ok {
		return refusal(kerr.InvalidConfig, fmt.Sprintf("Cannot set the log level of %s to %s as it is not a supported log level. Valid log levels are %s",
			op.Name, *op.Value, strings.Join(levels.Names(), ", ")))
	}
	return nil
}

// describeLoggers lists the levels that count.
func (a *API) describeLoggers(names []string) []config.Entry {
	var out []config.Entry
	for _, l := range a.Levels.Loggers() {
		if wanted(names, l.Name) {
			level := levels.Name(l.Level)
			out = append(out, config.Entry{Name: l.Name, Value: &level, Source: config.DynamicLogger})
		}
	}
	return out
}
