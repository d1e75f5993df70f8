/** Files that appear whole or not at all, read-only mappings, private folders and the native libraries unpacked to them. Knows bytes only. */
@NullMarked
package dev.octet.formats.file;

import org.jspecify.annotations.NullMarked;
