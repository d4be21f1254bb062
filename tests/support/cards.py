"""GPUs that are not here, as the driver and nvidia-ml-py would describe them."""

from dataclasses import replace
from types import ModuleType, SimpleNamespace

from softbench.measure.device import Gpu

H200 = Gpu("NVIDIA H200", 90, 132, 62_914_560, 150_000_000_000, 3_201_000, 6016, "0000:01:00.0", "580.1", clock_khz=1_980_000)
CARDS = tuple(replace(H200, pci=f"0000:0{n}:00.0", uuid=f"GPU-{n}") for n in range(4))


class Nvml(ModuleType):
    NVMLError = type("NVMLError", (Exception,), {})
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, reasons=0, power_mw=None):
        super().__init__("pynvml")
        self.compute = {}
        self.graphics = {}
        self.names = {}
        self.nvmlInit = lambda: None
        self.nvmlDeviceGetHandleByPciBusId = bytes.decode
        self.nvmlDeviceGetClockInfo = lambda handle, clock: {1: 1980, 2: 3201}[clock]
        self.nvmlDeviceGetTemperature = lambda handle, sensor: 45
        self.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: reasons
        self.nvmlDeviceGetPowerUsage = lambda handle: self._known(power_mw)
        self.nvmlDeviceGetComputeRunningProcesses = lambda handle: self._processes(handle, self.compute)
        self.nvmlDeviceGetGraphicsRunningProcesses = lambda handle: self._processes(handle, self.graphics)
        self.nvmlSystemGetProcessName = lambda pid: self._known(self.names.get(pid))

    def _known(self, value):
        if value is None:
            raise self.NVMLError("not supported")
        return value

    def _processes(self, handle, found):
        assert handle == H200.pci
        return [SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in self._known(found).items()]
