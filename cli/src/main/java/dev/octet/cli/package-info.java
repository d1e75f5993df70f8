/**
 * The command line: {@link dev.octet.cli.Octet} picks the verb, each verb is one class that parses its options, calls one public
 * method of the library and prints the answer. Results go to standard output, everything else to standard error; nothing outside
 * this package writes to either.
 */
@NullMarked
package dev.octet.cli;

import org.jspecify.annotations.NullMarked;
