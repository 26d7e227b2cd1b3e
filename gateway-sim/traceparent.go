package gatewaysim

import (
	"net/http"
	"strings"
)

// traceparentOf returns the request's traceparent, or the empty string when it has none, several, or one that is not in the
// form of W3C Trace Context, which is to be dropped (https://www.w3.org/TR/trace-context/#traceparent-header).
func traceparentOf(h http.Header) string {
	values := h["Traceparent"]
	if len(values) != 1 || !isTraceparent(values[0]) {
		return ""
	}
	return values[0]
}

// isTraceparent accepts version "-" trace-id "-" parent-id "-" trace-flags, in lower-case hexadecimal. A later version than 00
// may have more behind a further hyphen; ff is no version, and ids of nothing but zeros are none.
func isTraceparent(s string) bool {
	const length = 55 // of version 00
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, traceID, parentID, flags := s[:2], s[3:35], s[36:52], s[53:length]
	for _, digits := range []string{version, traceID, parentID, flags} {
		if strings.Trim(digits, "0123456789abcdef") != "" {
			return false
		}
	}
	if version == "ff" || strings.Trim(traceID, "0") == "" || strings.Trim(parentID, "0") == "" {
		return false
	}
	return len(s) == length || (version != "00" && s[length] == '-')
}
