/** Facts about an opened model for people and scripts: what {@code octet inspect} prints. Reads names, types and sizes, never weights. */
@NullMarked
package dev.octet.converter.inspect;

import org.jspecify.annotations.NullMarked;
