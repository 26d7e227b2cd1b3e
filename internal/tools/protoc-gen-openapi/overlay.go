package main

import (
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// object is a JSON object; its values are what encoding/json makes of JSON.
type object = map[string]any

// readOverlay reads the YAML file at path.
func readOverlay(path string) (object, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	overlay := object{}
	if err := yaml.Unmarshal(raw, &overlay); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return overlay, nil
}

// merge lays patch over target by the rules of a JSON merge patch (RFC 7396): objects are merged member by member, null
// removes a member, and anything else replaces what was there.
func merge(target, patch object) object {
	merged := object{}
	for name, value := range target {
		merged[name] = value
	}
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(merged, name)
		case object:
			was, _ := merged[name].(object)
			merged[name] = merge(was, value)
		default:
			merged[name] = value
		}
	}
	return merged
}

// shareParameters gives each operation the parameters that its path has for all. Both forms mean the same; not every reader of
// the document knows the second, and a list of the overlay would replace the operation's own.
func shareParameters(doc object) error {
	paths, err := at(doc, "paths")
	if err != nil {
		return err
	}
	for _, item := range paths {
		methods, _ := item.(object)
		shared, _ := methods["parameters"].([]any)
		delete(methods, "parameters")
		for _, method := range methods {
			operation, ok := method.(object)
			if !ok || len(shared) == 0 {
				continue
			}
			own, _ := operation["parameters"].([]any)
			operation["parameters"] = slices.Concat(own, shared)
		}
	}
	return nil
}

// at returns the object that the path of member names leads to.
func at(doc object, path ...string) (object, error) {
	for i, name := range path {
		next, ok := doc[name].(object)
		if !ok {
			return nil, fmt.Errorf("the document has no object at %q", path[:i+1])
		}
		doc = next
	}
	return doc, nil
}

// operations returns the document's operations by their operationId.
func operations(doc object) (map[string]object, error) {
	paths, err := at(doc, "paths")
	if err != nil {
		return nil, err
	}
	found := map[string]object{}
	for _, item := range paths {
		methods, _ := item.(object)
		for _, method := range methods {
			// A path item holds other members too, and those have no operationId.
			operation, _ := method.(object)
			if id, ok := operation["operationId"].(string); ok {
				found[id] = operation
			}
		}
	}
	return found, nil
}
