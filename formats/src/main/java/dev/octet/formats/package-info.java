/**
 * Entry points of this module: {@link dev.octet.formats.ModelFile} opens and saves models of every format, {@link
 * dev.octet.formats.OctetVersion} is the version that wrote them.
 */
@NullMarked
package dev.octet.formats;

import org.jspecify.annotations.NullMarked;
