package dev.octet.converter.jinja;

/**
 * A value that is missing: false, empty, without elements. Anything else done with it is an error.
 *
 * @param what names it in messages
 */
record Undefined(String what) {
    JinjaException error() {
        return new JinjaException(what + " is undefined");
    }
}
