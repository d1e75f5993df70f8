package dev.octet.trainer.device.cuda;

import jcuda.driver.CUdeviceptr;

/** A device pointer as a number, which jcuda does not expose. */
final class DeviceAddress extends CUdeviceptr {
    /** A pointer for the driver to set. */
    DeviceAddress() {}

    private DeviceAddress(long address) {
        super(new CUdeviceptr(), address);
    }

    static DeviceAddress of(long address) {
        return new DeviceAddress(address);
    }

    long address() {
        return getNativePointer() + getByteOffset();
    }
}
