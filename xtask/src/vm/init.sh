#!/bin/busybox sh
# The guest's first program, in the initramfs: loads the drivers, mounts the disk, moves there.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
mount -t sysfs sys /sys
for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
    echo 1 >"$cpu"
done
umount /sys
# Twice, because which module needs which differs from kernel to kernel.
for round in 1 2; do
    for module in /modules/*.ko; do
        insmod "$module" 2>/dev/null && rm "$module"
    done
done
# The disk may show up a moment after its driver.
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    [ -b /dev/vda ] && break
    sleep 0.2
done
if ! mount -t ext4 -o noatime /dev/vda /root; then
    printf '\n@vm failed the guest cannot mount its disk\n' >"/dev/$wingbeat_line"
    poweroff -f
fi
mount -t tmpfs run /root/run
cp /script /root/run/script
# Where distributions put it, for whoever asks what this kernel should be able to do.
[ ! -f /configuration ] || { mkdir -p /root/boot && cp /configuration "/root/boot/config-$(uname -r)"; }
umount /proc
mount --move /dev /root/dev
exec switch_root /root /wingbeat-vm
