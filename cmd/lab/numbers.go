package main

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// clone returns a pointer to a copy of a struct.
func clone(numbers any) any {
	p := reflect.New(reflect.TypeOf(numbers))
	p.Elem().Set(reflect.ValueOf(numbers))
	return p.Interface()
}

// value is what a pointer made by [clone] points to.
func value(numbers any) any { return reflect.ValueOf(numbers).Elem().Interface() }

// numberFlag is a flag of an experiment's own, and which field it is.
type numberFlag struct {
	*kong.Flag
	field []int
}

// own finds the flags of numbers among all flags of a command.
func own(flags []*kong.Flag, numbers any) []numberFlag {
	v := reflect.ValueOf(numbers).Elem()
	fields := map[any][]int{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if at := v.FieldByIndex(f.Index); at.CanSet() {
			fields[at.Addr().Interface()] = f.Index
		}
	}
	var out []numberFlag
	for _, f := range flags {
		if field, ok := fields[f.Target.Addr().Interface()]; ok {
			out = append(out, numberFlag{f, field})
		}
	}
	return out
}

// defaults makes what from holds the defaults of the flags of numbers.
func defaults(flags []*kong.Flag, numbers, from any) {
	for _, f := range own(flags, numbers) {
		f.Default = text(reflect.ValueOf(from).FieldByIndex(f.field))
		f.HasDefault = f.Default != ""
	}
}

// text is a number as its flag takes it.
func text(v reflect.Value) string {
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	parts := make([]string, v.Len())
	for i := range parts {
		parts[i] = text(v.Index(i))
	}
	return strings.Join(parts, ",")
}

// check holds the numbers to their flags' limits, and to what they demand themselves.
func check(flags []*kong.Flag, numbers any) error {
	for _, f := range own(flags, numbers) {
		if err := within(f.Flag); err != nil {
			return err
		}
	}
	if v, ok := numbers.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// within reports a number outside the limits of its flag.
func within(f *kong.Flag) error {
	each := []reflect.Value{f.Target}
	if f.Target.Kind() == reflect.Slice {
		each = nil
		for i := range f.Target.Len() {
			each = append(each, f.Target.Index(i))
		}
		if len(each) == 0 {
			return fmt.Errorf("--%s: want at least one", f.Name)
		}
	}
	for _, v := range each {
		n, ok := number(v)
		if !ok {
			continue
		}
		low, high, err := limits(f, v.Type())
		if err != nil {
			return err
		}
		if !(n >= low && n <= high) { // nor is it NaN
			return fmt.Errorf("--%s %s: want %s", f.Name, text(v), limitWords(v.Type(), low, high))
		}
	}
	return nil
}

// number is a value as a number, if it is one. A float64 is exact for all that limits are for.
func number(v reflect.Value) (float64, bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

// mostOf is the highest count: far more than an experiment bears, and less than would fill the memory.
const mostOf = 1_000_000

var durationType = reflect.TypeFor[time.Duration]()

// limits are a flag's tags min and max or, without them: a share is 0 or more, a time more than 0, and a count 1 to a million.
func limits(f *kong.Flag, t reflect.Type) (low, high float64, err error) {
	switch {
	case t == durationType:
		low, high = 1, math.MaxInt64
	case t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32:
		high = math.MaxFloat64
	default:
		low, high = 1, mostOf
	}
	for key, limit := range map[string]*float64{"min": &low, "max": &high} {
		if f.Tag.Has(key) && err == nil {
			*limit, err = parse(t, f.Tag.Get(key))
		}
	}
	return low, high, err
}

func parse(t reflect.Type, text string) (float64, error) {
	if t == durationType {
		d, err := time.ParseDuration(text)
		return float64(d), err
	}
	return strconv.ParseFloat(text, 64)
}

func limitWords(t reflect.Type, low, high float64) string {
	if t == durationType {
		from := "at least " + time.Duration(low).String()
		if low == 1 {
			from = "more than 0s"
		}
		if high == math.MaxInt64 {
			return from
		}
		return from + " and at most " + time.Duration(high).String()
	}
	if high == math.MaxFloat64 {
		return fmt.Sprintf("at least %g", low)
	}
	return fmt.Sprintf("%s to %s", strconv.FormatFloat(low, 'f', -1, 64), strconv.FormatFloat(high, 'f', -1, 64))
}
