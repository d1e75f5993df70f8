/**
 * Octet's exceptions, each with <em>what / where / fix</em>. Every room may throw them; the command line turns them into exit codes.
 * Refusing to convert a node is not an error but a value in the plan.
 */
@NullMarked
package dev.octet.formats.error;

import org.jspecify.annotations.NullMarked;
