/** One operator written with others. */
@NullMarked
package dev.octet.converter.expand;

import org.jspecify.annotations.NullMarked;
