package telemetry

import "log/slog"

// Secret is a credential that does not print: fmt, slog, JSON and text encoders all show a fixed placeholder. Reveal is the
// one way to its characters, so that every use can be found by searching for it.
type Secret string

const redacted = "[redacted]"

// Reveal returns the credential itself, for the one call that sends or compares it.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer with a placeholder; an empty secret shows as empty, which helps when one is missing.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString keeps %#v from printing the credential.
func (s Secret) GoString() string { return s.String() }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps JSON, YAML and text encoders from printing the credential.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
