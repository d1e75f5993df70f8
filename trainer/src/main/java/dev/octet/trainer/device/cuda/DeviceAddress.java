package dev.octet.trainer.device.cuda;

import jcuda.driver.CUdeviceptr;

/** Device memory as a number, which jcuda keeps to itself. */
final class DeviceAddress extends CUdeviceptr {
    /** To be set by the driver. */
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
