package server

import (
	"fmt"
	"html/template"
	"net/http"
	"strings"

	paymentsv1 "chargeonce/api/payments/v1"
)

var problemHTML = template.Must(template.New("problem").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{{.Reason}}: {{.Title}}</title>
<h1>{{.Title}}</h1>
<p><code>{{.Reason}}</code>, HTTP {{.Status}}, next_action <code>{{.NextAction}}</code></p>
<p>{{.Detail}}</p>
<p>{{.Advice}}</p>
</html>
`))

// problemPage is what the type of a problem document points to: what happened and what to do, as HTML for a browser and as
// plain text for anything else.
func (s *Server) problemPage(w http.ResponseWriter, r *http.Request) {
	reason := paymentsv1.Reason(paymentsv1.Reason_value[r.PathValue("reason")])
	found, ok := rows[reason]
	if !ok {
		s.refuse(w, r, &problem{reason: paymentsv1.Reason_NOT_FOUND})
		return
	}
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	var err error
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		err = problemHTML.Execute(w, map[string]any{
			"Reason": reason.String(), "Title": found.title, "Status": found.httpStatus, "NextAction": found.nextAction,
			"Detail": found.detail, "Advice": found.advice,
		})
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, err = fmt.Fprintf(w, "%s: %s\nHTTP %d, next_action %s\n\n%s\n%s\n",
			reason, found.title, found.httpStatus, found.nextAction, found.detail, found.advice)
	}
	if err != nil {
		s.log.InfoContext(r.Context(), "the client left before its answer was written", "error", err)
	}
}
