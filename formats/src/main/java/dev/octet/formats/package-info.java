/** The entry to files: open a model whatever its format, save one. The only class of the module that knows all formats. */
@NullMarked
package dev.octet.formats;

import org.jspecify.annotations.NullMarked;
