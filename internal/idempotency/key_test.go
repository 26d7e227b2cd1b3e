package idempotency_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"chargeonce/internal/idempotency"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", idempotency.MaxKeyLength)
	for _, tc := range []struct {
		name   string
		values []string
		key    string // of a key that is taken
		says   string // part of the refusal
	}{
		{name: "bare", values: []string{"k-7f3a"}, key: "k-7f3a"},
		{name: "quoted, as browsers send it", values: []string{`"k-7f3a"`}, key: "k-7f3a"},
		{name: "quoted with escapes", values: []string{`"a\"b\\c"`}, key: `a"b\c`},
		{name: "quoted with space and comma", values: []string{`"a b, c"`}, key: "a b, c"},
		{name: "bare with a backslash", values: []string{`a\b`}, key: `a\b`},
		{name: "bare with semicolon and equals", values: []string{"a;b=1"}, key: "a;b=1"},
		{name: "white space around it", values: []string{" \tk "}, key: "k"},
		{name: "white space kept inside quotes", values: []string{`" k "`}, key: " k "},
		{name: "the longest", values: []string{long}, key: long},
		{name: "the longest in quotes", values: []string{`"` + long + `"`}, key: long},
		{name: "empty", values: []string{""}, says: "is empty"},
		{name: "only white space", values: []string{"  "}, says: "is empty"},
		{name: "empty in quotes", values: []string{`""`}, says: "is empty"},
		{name: "256 characters", values: []string{long + "k"}, says: "has 256 characters; at most 255"},
		{name: "two values", values: []string{"a", "a"}, says: "was sent 2 times"},
		{name: "two values that a proxy joined", values: []string{"a, b"}, says: "comma"},
		{name: "two quoted values that a proxy joined", values: []string{`"a", "b"`}, says: "after its closing quote"},
		{name: "parameters", values: []string{`"a";v=1`}, says: "after its closing quote"},
		{name: "no closing quote", values: []string{`"a`}, says: "no closing quote"},
		{name: "a quote inside", values: []string{`a"b`}, says: "double quotes"},
		{name: "a space inside", values: []string{"a b"}, says: "double quotes"},
		{name: "an escape of nothing", values: []string{`"a\n"`}, says: "backslash"},
		{name: "a backslash at the end", values: []string{`"a\`}, says: "backslash"},
		{name: "a control character", values: []string{"a\x01"}, says: "0x01"},
		{name: "a character beyond ASCII", values: []string{"ké"}, says: "0xc3"},
		{name: "a control character in quotes", values: []string{"\"a\x7f\""}, says: "0x7f"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			key, err := idempotency.ParseKey(tc.values)
			if tc.says == "" {
				if err != nil || key.String() != tc.key {
					t.Fatalf("got %q, %v; want %q", key, err, tc.key)
				}
				return
			}
			var refused *idempotency.KeyError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("error %v; want a KeyError that says %q", err, tc.says)
			}
		})
	}
	if _, err := idempotency.ParseKey(nil); !errors.Is(err, idempotency.ErrNoKey) {
		t.Errorf("no header: %v; want ErrNoKey", err)
	}
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// checkKey holds for every string: it is one key or a KeyError, and never another form of trouble.
func checkKey(t interface{ Fatalf(string, ...any) }, raw string) {
	key, err := idempotency.ParseKey([]string{raw})
	var refused *idempotency.KeyError
	if err != nil {
		if !errors.As(err, &refused) || key.String() != "" {
			t.Fatalf("%q: key %q with error %v", raw, key, err)
		}
		return
	}
	s := key.String()
	if len(s) == 0 || len(s) > idempotency.MaxKeyLength {
		t.Fatalf("%q: a key of %d characters", raw, len(s))
	}
	again, err := idempotency.ParseKey([]string{quote(s)})
	if err != nil || again != key {
		t.Fatalf("%q: its quoted form is %q, %v; want the same key", raw, again, err)
	}
	if !strings.ContainsAny(s, " ,\"") && !strings.HasPrefix(s, `"`) {
		if bare, err := idempotency.ParseKey([]string{s}); err != nil || bare != key {
			t.Fatalf("%q: its bare form is %q, %v; want the same key", raw, bare, err)
		}
	}
}

func TestEveryStringIsOneKeyOrARefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkKey(t, rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`[ -~]{0,260}`),
			rapid.StringMatching(`"[ -~]{0,260}"`),
			rapid.Map(rapid.StringMatching(`[ -~]{1,255}`), quote),
		).Draw(t, "header"))
	})
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"k", `"k"`, `"a\"b"`, "a, b", "", "\x00", `"a";v=1`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkKey(t, raw) })
}

func mustKey(t interface{ Fatalf(string, ...any) }, s string) idempotency.Key {
	key, err := idempotency.ParseKey([]string{quote(s)})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return key
}

// Cases 3, 9 and 25: the PSP's key is a function of user and key alone, and two users never share one.
func TestPSPKeyIsAFunctionOfUserAndKeyAlone(t *testing.T) {
	t.Parallel()
	// This value is on the wire of every installation: a release that changes it charges twice what is in flight.
	const want = "edf54e75a76cbf3cd25d8f5da754c5924ef27a9a581254d80280f87294610768"
	if got := idempotency.PSPKey(42, mustKey(t, "k-7f3a")); got != want {
		t.Errorf("PSPKey(42, k-7f3a) = %s; want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		type id struct {
			user int64
			key  string
		}
		draw := rapid.Custom(func(t *rapid.T) id {
			return id{rapid.Int64Range(1, 1<<62).Draw(t, "user"), rapid.StringMatching(`[ -~]{1,255}`).Draw(t, "key")}
		})
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		ka, kb := idempotency.PSPKey(a.user, mustKey(t, a.key)), idempotency.PSPKey(b.user, mustKey(t, b.key))
		if (a == b) != (ka == kb) {
			t.Fatalf("%v gives %s, %v gives %s", a, ka, b, kb)
		}
		if len(ka) != 64 {
			t.Fatalf("%d characters; want 64", len(ka))
		}
	})
}

func TestHintDoesNotGiveTheKeyAway(t *testing.T) {
	t.Parallel()
	key := mustKey(t, "k-7f3a")
	if hint := key.Hint(); len(hint) != 12 || strings.Contains(hint, "7f3a") || strings.Contains(fmt.Sprint(hint), key.String()) {
		t.Errorf("hint %q", hint)
	}
}
