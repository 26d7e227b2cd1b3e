package gatewaysim

import (
	"net/http"
	"testing"
)

func TestTraceparentForm(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, tt := range map[string]struct {
		values []string
		want   string
	}{
		"none":                       {nil, ""},
		"as it should be":            {[]string{good}, good},
		"not sampled":                {[]string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"},
		"two":                        {[]string{good, good}, ""},
		"empty":                      {[]string{""}, ""},
		"too short":                  {[]string{good[:54]}, ""},
		"more behind it":             {[]string{good + "-x"}, ""},
		"a later version":            {[]string{"cc" + good[2:]}, "cc" + good[2:]},
		"a later version with more":  {[]string{"cc" + good[2:] + "-what-comes"}, "cc" + good[2:] + "-what-comes"},
		"a later version, no hyphen": {[]string{"cc" + good[2:] + "x"}, ""},
		"no version":                 {[]string{"ff" + good[2:]}, ""},
		"upper case":                 {[]string{"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"}, ""},
		"a letter too far":           {[]string{"00-0gf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, ""},
		"no trace":                   {[]string{"00-00000000000000000000000000000000-b7ad6b7169203331-01"}, ""},
		"no parent":                  {[]string{"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}, ""},
		"hyphens out of place":       {[]string{"000-af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, ""},
	} {
		if got := traceparentOf(http.Header{"Traceparent": tt.values}); got != tt.want {
			t.Errorf("%s: %q gives %q, want %q", name, tt.values, got, tt.want)
		}
	}
}
