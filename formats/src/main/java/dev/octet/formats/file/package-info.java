/** Files that appear whole or not at all, and read-only mappings. Knows bytes only. */
@NullMarked
package dev.octet.formats.file;

import org.jspecify.annotations.NullMarked;
