/** The door of this module: {@link dev.octet.formats.ModelFile} opens and saves models of every format, {@link dev.octet.formats.OctetVersion} says who wrote them. */
@NullMarked
package dev.octet.formats;

import org.jspecify.annotations.NullMarked;
