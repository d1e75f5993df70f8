/** Where programs run. */
@NullMarked
package dev.octet.trainer.device;

import org.jspecify.annotations.NullMarked;
