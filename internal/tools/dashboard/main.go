// Command dashboard writes Grafana's dashboard of the service, deploy/grafana/dashboards/chargeonce.json. The file is committed, and a
// test holds it against this program.
//
//	go run -C internal/tools ./dashboard
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// file is where the dashboard lies, from internal/tools.
var file = filepath.Join("..", "..", "deploy", "grafana", "dashboards", "chargeonce.json")

func main() {
	text, err := render()
	if err == nil {
		err = os.WriteFile(file, text, 0o644) // Grafana runs as another user
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

// render gives the dashboard as the file holds it.
func render() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(board(rows())); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
