/** Collects the facts about an opened model that {@code octet inspect} prints. Reads names, types and sizes, never weights. */
@NullMarked
package dev.octet.converter.inspect;

import org.jspecify.annotations.NullMarked;
