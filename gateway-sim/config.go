package gatewaysim

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// DemoAPIKey is the API key of demonstrations. Everybody can read it here, so it guards nothing.
const DemoAPIKey = "psp_demo_key"

// DemoWebhookSecret returns the signing secret of demonstrations. Everybody can read it here, so its signatures prove nothing.
func DemoWebhookSecret() string {
	return secretPrefix + base64.StdEncoding.EncodeToString([]byte("for demonstrations only, no secret"))
}

// StandardSchedule returns the waits before the 1st, 2nd, … delivery of an event that the Standard Webhooks specification
// recommends ("Deliverability and reliability"). Summed up, an event is tried for a little over three days.
func StandardSchedule() []time.Duration {
	return []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
		5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

// Config is how a [Sim] is set up. Only Path and APIKey are required; a zero value elsewhere means the default that the
// field's comment names.
type Config struct {
	// Path is the file that keeps everything. It is created when it is missing. One process at a time can hold it.
	Path string
	// APIKey is what callers send as "Authorization: Bearer …".
	APIKey string
	// WebhookURL is where events go. While it is empty events wait, and nothing is lost; see [Sim.SetWebhookURL].
	WebhookURL string
	// WebhookSecrets ("whsec_" and base64 of 24 to 64 bytes) all sign every delivery, as Standard Webhooks has it for a
	// rotation. Default: [DemoWebhookSecret].
	WebhookSecrets []string
	// WebhookSchedule is the wait before each delivery of an event; its length is the number of tries. Default:
	// [StandardSchedule].
	WebhookSchedule []time.Duration
	// WebhookSpeedup divides every wait of the schedule. Default: 1.
	WebhookSpeedup float64
	// WebhookTimeout bounds one delivery, connecting and reading the answer included. Default: 15 s.
	WebhookTimeout time.Duration
	// WebhookConcurrency bounds the deliveries under way at once. Default: 32.
	WebhookConcurrency int
	// PendingAfter is how long a charge of tok_pending or tok_pending_fails stays pending. Default: 2 s.
	PendingAfter time.Duration
	// KeyRetention is how long a key is remembered; a key that is older is as good as never seen. Default: for ever.
	KeyRetention time.Duration
	// Latency is how long a POST /charges works before it decides, while no fault says otherwise. Default: not at all.
	Latency Latency
	// Faults are in force from the start. Default: none.
	Faults *Faults
	// ShutdownGrace is how long [Sim.Serve] lets requests finish once its context ends. Default: 5 s.
	ShutdownGrace time.Duration
	// MaxFileSize, in bytes, makes the file full at that size; a write past it is answered 500. Default: no limit.
	MaxFileSize int
	// Logger gets what happens; it never sees a key or a secret. Default: nothing is logged.
	Logger *slog.Logger
}

// withDefaults returns c with every default filled in, or the error that makes it unusable.
func (c Config) withDefaults() (Config, error) {
	if c.Path == "" {
		return c, errors.New("gateway-sim: Config.Path is empty")
	}
	if c.APIKey == "" {
		return c, errors.New("gateway-sim: Config.APIKey is empty")
	}
	if err := checkWebhookURL(c.WebhookURL); err != nil {
		return c, fmt.Errorf("gateway-sim: %w", err)
	}
	if c.WebhookSpeedup < 0 || c.WebhookTimeout < 0 || c.WebhookConcurrency < 0 || c.PendingAfter < 0 ||
		c.KeyRetention < 0 || c.ShutdownGrace < 0 || c.MaxFileSize < 0 {
		return c, errors.New("gateway-sim: a number in Config is negative")
	}
	if len(c.WebhookSecrets) == 0 {
		c.WebhookSecrets = []string{DemoWebhookSecret()}
	}
	if len(c.WebhookSchedule) == 0 {
		c.WebhookSchedule = StandardSchedule()
	}
	setDefault(&c.WebhookSpeedup, 1)
	setDefault(&c.WebhookTimeout, 15*time.Second)
	setDefault(&c.WebhookConcurrency, 32)
	setDefault(&c.PendingAfter, 2*time.Second)
	setDefault(&c.ShutdownGrace, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// checkWebhookURL accepts an absolute http or https URL, and the empty string for "none yet".
func checkWebhookURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("webhook URL %q is not an absolute http or https URL", strings.ToValidUTF8(s, "?"))
	}
	return nil
}
