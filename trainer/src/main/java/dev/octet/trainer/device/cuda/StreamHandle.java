package dev.octet.trainer.device.cuda;

import jcuda.driver.CUstream;

/** A stream as a number, for cublasLt. */
final class StreamHandle extends CUstream {
    long handle() {
        return getNativePointer();
    }
}
