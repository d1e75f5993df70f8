/**
 * The few exceptions of Octet, each built of <em>what / where / fix</em>. Every room may throw them; the command line turns
 * them into exit codes. Refusing to convert one node is not an error but a value in the plan.
 */
@NullMarked
package dev.octet.formats.error;

import org.jspecify.annotations.NullMarked;
