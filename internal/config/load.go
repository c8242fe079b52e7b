package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/magiconair/properties"
)

// Options of Load.
type Options struct {
	File    string   // path of a properties file; "" for none
	Environ []string // NAME=value, as os.Environ gives it; BARNABAS_LOG_DIRS sets log.dirs
	Set     []string // key=value, the strongest, the last first
}

// reserved names of the environment are not keys: what clients connect to, and
// the binary that tests run.
var reserved = []string{"BOOTSTRAP", "ADMIN", "BIN"}

// Load reads the settings: defaults, then the file, the environment and Set,
// each over the ones before. What deserves a word and does not stop the start
// comes back as warnings, one sentence each. The error, if any, names every
// key with a bad value, the value, where it stands and what is allowed.
func Load(o Options) (*Config, []string, error) {
	l := loader{raw: map[string]string{}, from: map[string]string{}}
	if o.File != "" {
		if err := l.file(o.File); err != nil {
			return nil, nil, err
		}
	}
	l.environ(o.Environ)
	for _, s := range o.Set {
		l.set(s)
	}
	return l.finish()
}

// Parse reads settings from the text of a properties file; name stands for it in messages.
func Parse(name string, text []byte) (*Config, []string, error) {
	l := loader{raw: map[string]string{}, from: map[string]string{}}
	if err := l.properties(name, text); err != nil {
		return nil, nil, err
	}
	return l.finish()
}

type loader struct {
	raw  map[string]string
	from map[string]string // where the value stands
	errs []error
}

func (l *loader) file(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	return l.properties(path, text)
}

// properties reads Java's format. Nothing is expanded: ${x} stands for itself, as it does there.
func (l *loader) properties(name string, text []byte) error {
	pl := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := pl.LoadBytes(text)
	if err != nil {
		return fmt.Errorf("%s is not a properties file: %w", name, err)
	}
	for _, key := range p.Keys() {
		v, _ := p.Get(key)
		l.put(key, v, name)
	}
	return nil
}

func (l *loader) put(key, v, from string) {
	l.raw[key], l.from[key] = v, from
}

// environ takes the variables that begin with BARNABAS_: the rest of the name,
// in small letters and with dots for underscores, is the key, with "barnabas."
// before it where only that is one.
func (l *loader) environ(environ []string) {
	for _, kv := range environ {
		name, v, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(name, "BARNABAS_")
		if !ok || slices.Contains(reserved, rest) {
			continue
		}
		key := strings.ReplaceAll(strings.ToLower(rest), "_", ".")
		if _, known := lookupBroker(key); !known {
			if _, own := lookupBroker("barnabas." + key); own {
				key = "barnabas." + key
			}
		}
		l.put(key, v, "the environment, "+name)
	}
}

func (l *loader) set(s string) {
	key, v, ok := strings.Cut(s, "=")
	key = strings.TrimSpace(key)
	if !ok || key == "" {
		l.errs = append(l.errs, fmt.Errorf("--set %q: key=value is expected", s))
		return
	}
	l.put(key, v, "--set")
}

// finish checks every value.
func (l *loader) finish() (*Config, []string, error) {
	var warnings []string
	for _, name := range sortedKeys(l.raw) {
		k, ok := lookupBroker(name)
		if !ok {
			warnings = append(warnings, unknown(name, l.from[name]))
			delete(l.raw, name)
			continue
		}
		v, err := k.parse(l.raw[name])
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("%s: the value %q (from %s) is not allowed: it must be %s", name, l.shown(k, name), l.from[name], k.Allowed()))
			continue
		}
		if k.isDefault(v) {
			continue
		}
		switch k.State {
		case Planned:
			warnings = append(warnings, name+" has no effect yet")
		case Never:
			warnings = append(warnings, name+" is accepted and has no effect in Barnabas: "+k.Reason)
		case Refused:
			l.errs = append(l.errs, fmt.Errorf("%s: the value %q (from %s) is refused: %s", name, l.shown(k, name), l.from[name], k.Reason))
		}
	}
	c := &Config{layers: []layer{{Static, l.raw}}}
	if len(l.errs) == 0 {
		l.errs = append(l.errs, c.crossCheck()...)
	}
	if len(l.errs) > 0 {
		return nil, warnings, errors.Join(l.errs...)
	}
	return c, warnings, nil
}

// isDefault: a setting that repeats the default asks for nothing, and neither
// does one that says nothing where nothing is the default.
func (k *Key) isDefault(v any) bool {
	if k.Default == nil {
		return format(v) == ""
	}
	return *k.Default == format(v)
}

// shown is a value as messages may show it.
func (l *loader) shown(k *Key, name string) string {
	if k.Sensitive() {
		return "[hidden]"
	}
	return l.raw[name]
}

// unknown words the warning about a key that is in no row, with the likeliest meaning.
func unknown(name, from string) string {
	w := fmt.Sprintf("%s (from %s) is not a key of a broker and is ignored", name, from)
	for _, k := range Keys(TopicScope) {
		if k.Name == name {
			if len(k.Synonyms) > 0 {
				return w + ": it is a topic's; the default for topics is " + k.Synonyms[0]
			}
			return w + ": it is a topic's"
		}
	}
	best, least := "", 4
	for _, k := range Keys(BrokerScope) {
		if d := distance(name, k.Name, least); d < least {
			best, least = k.Name, d
		}
	}
	if best != "" {
		return w + "; did you mean " + best + "?"
	}
	return w
}

// distance is the number of single-letter edits between a and b, or limit when it is not below.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return min(row[len(b)], limit)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
