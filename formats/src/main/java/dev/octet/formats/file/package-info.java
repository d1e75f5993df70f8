/** Atomic files, read-only mappings, private folders and the native libraries unpacked to them. Handles bytes, not formats. */
@NullMarked
package dev.octet.formats.file;

import org.jspecify.annotations.NullMarked;
