package config

import "maps"

// Reload gives the static settings that count once next was read while a broker
// runs with c, and names what differs: what takes effect now, because it can be
// changed dynamically, and what needs a restart. Where that does not fit with
// what is left as it was, nothing but the log levels takes effect.
func (c *Config) Reload(next *Config) (running *Config, now, restart []string) {
	for _, takes := range []func(string) bool{reloads, func(name string) bool { return name == logLevelKey }} {
		running, now, restart = c.reload(next, takes)
		if len(running.crossCheck()) == 0 {
			break
		}
	}
	return running, now, restart
}

func (c *Config) reload(next *Config, takes func(name string) bool) (running *Config, now, restart []string) {
	raw := map[string]string{}
	maps.Copy(raw, c.layers[len(c.layers)-1].raw)
	for _, name := range c.Changed(next) {
		if !takes(name) {
			restart = append(restart, name)
			continue
		}
		now = append(now, name)
		delete(raw, name)
		if v, set := next.layers[len(next.layers)-1].raw[name]; set {
			raw[name] = v
		}
	}
	return &Config{layers: []layer{{Static, raw}}}, now, restart
}

const logLevelKey = "barnabas.log.level"

// reloads tells whether another static value takes effect while a broker runs.
func reloads(name string) bool {
	k, ok := lookupBroker(name)
	return ok && (name == logLevelKey || k.State == Live && k.Mode != ReadOnly && k.live(name))
}
