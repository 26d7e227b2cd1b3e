package psp

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestValidateNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	good := Config{BaseURL: "https://psp.example/v1", APIKey: "sk_test"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, breakIt := range map[string]func(*Config){
		"BaseURL":                func(c *Config) { c.BaseURL = "psp.example" },
		"APIKey":                 func(c *Config) { c.APIKey = "" },
		"AttemptTimeout":         func(c *Config) { c.AttemptTimeout = -1 },
		"MinAttempt":             func(c *Config) { c.MinAttempt = 3 * time.Second },
		"MaxCall":                func(c *Config) { c.MaxCall = -1 },
		"DialTimeout":            func(c *Config) { c.DialTimeout = -1 },
		"IdleConnTimeout":        func(c *Config) { c.IdleConnTimeout = -1 },
		"MaxAttempts":            func(c *Config) { c.MaxAttempts = 101 },
		"BackoffBase":            func(c *Config) { c.BackoffBase = 3 * time.Second },
		"BackoffCap":             func(c *Config) { c.BackoffCap = -1 },
		"BudgetTokens":           func(c *Config) { c.BudgetTokens = -1 },
		"BudgetTenthsPerSuccess": func(c *Config) { c.BudgetTenthsPerSuccess = -1 },
		"BreakerFailuresInRow":   func(c *Config) { c.BreakerFailuresInRow = -1 },
		"BreakerMinCalls":        func(c *Config) { c.BreakerMinCalls = -1 },
		"BreakerWindow":          func(c *Config) { c.BreakerWindow = 5 },
		"OpenFor":                func(c *Config) { c.OpenFor = -1 },
		"SlowAfter":              func(c *Config) { c.SlowAfter = 3 * time.Second },
		"Slots":                  func(c *Config) { c.Slots = -1 },
		"SlotWait":               func(c *Config) { c.SlotWait = -1 },
	} {
		c := good
		breakIt(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "psp: "+field+": ") {
			t.Errorf("%s: got %v", field, err)
		}
	}
	for _, url := range []string{"", "ftp://psp", "http://", "https://user:hunter2@psp", "https://psp?x=1", "https://psp#x", "https://psp:hunter2port"} {
		c := good
		c.BaseURL = url
		err := c.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "psp: BaseURL: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v", url, err)
		}
	}
}

func TestZeroValuesMeanTheDefaults(t *testing.T) {
	t.Parallel()
	want := Config{
		Name: "payments", AttemptTimeout: 2 * time.Second, MinAttempt: 20 * time.Millisecond, MaxCall: 30 * time.Second,
		DialTimeout: 1500 * time.Millisecond, IdleConnTimeout: 30 * time.Second, MaxAttempts: 4, BackoffBase: 100 * time.Millisecond,
		BackoffCap: 2 * time.Second, BudgetTokens: 10, BudgetTenthsPerSuccess: 1, BreakerFailuresInRow: 5, BreakerMinCalls: 20,
		BreakerWindow: 10 * time.Second, OpenFor: time.Second, SlowAfter: time.Second, Slots: 64, SlotWait: 50 * time.Millisecond,
	}
	if diff := cmp.Diff(want, Config{}.withDefaults(), cmpopts.IgnoreFields(Config{}, "Logger")); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
